"""One vector a text: encoders and decoders, in the manner that a folder or a file asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.checkpoint.exchange.huggingface import write_model
from headway.models.build import build_decoder, build_masked
from headway.runs.embedder import Embedder
from headway.runs.open_model import open_embedder
from headway.runs.pooling import Manner
from headway.runs.portable import Portable
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.presets import PRESETS
from headway.tokens.gguf_metadata import gguf_metadata
from headway.tokens.text import Roles, TextTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

TEXTS = ["hi there", "a rather longer text, hi", "hi"]
SMALL = {"n_layers": 2, "d_model": 64, "d_feed_forward": 96, "n_heads": 4, "max_length": 32}
BERT = EncoderSettings(**SMALL, norm_eps=1e-12)
DECODERS = {
    "llama": DecoderSettings(**PRESETS["smollm2-135m"] | SMALL | {"n_kv_heads": 2}),
    "gpt2": DecoderSettings(**PRESETS["gpt2"] | SMALL),
}
N_TOKENS = 260


def backend(*, frames: bool) -> Backend:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: id for id, token in enumerate([*letters, "hi"])}
    made = Backend(models.BPE(vocab, [("h", "i")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    if frames:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 257), ("</s>", 258)]
        )
    return made


def shaken(model: Any) -> Any:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)) * 0.3)
    return model


def folder_of(path: Path, settings: Any, **said: Any) -> Path:
    """A folder of an encoder or a decoder, with what its tokenizer_config.json says."""
    build = build_masked if isinstance(settings, EncoderSettings) else build_decoder
    write_model(path, shaken(build(settings, n_tokens=N_TOKENS, seed=3)), settings)
    backend(frames=isinstance(settings, EncoderSettings)).save(str(path / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    (path / "tokenizer_config.json").write_text(json.dumps(names | said), encoding="utf-8")
    return path


def states(folder: Path, ids: list[int]) -> Tensor:
    """transformers' last hidden states of one text: (T, D)."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        found: Tensor = model(torch.tensor([ids])).last_hidden_state[0]
    return found


def unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()


def close(found: Tensor, wanted: list[Tensor]) -> None:
    torch.testing.assert_close(found, torch.stack(wanted), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("closes", [True, False])
def test_a_decoder_embeds_by_the_mean_of_its_states(
    tmp_path: Path, kind: str, closes: bool
) -> None:
    folder = folder_of(tmp_path / "a", DECODERS[kind], add_bos_token=True, add_eos_token=closes)
    model = open_embedder(folder, device="cpu")
    rows = [[257, *backend(frames=False).encode(text).ids] for text in TEXTS]
    rows = [[*row, 258] if closes else row for row in rows]
    close(model.embed(TEXTS), [unit(states(folder, row).mean(dim=0)) for row in rows])
    assert model.embed([]).shape == (0, 64)


def test_a_gguf_embeds_as_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    settings = DECODERS["llama"]
    folder = folder_of(tmp_path / "a", settings)
    portable = Portable.open(folder)
    assert portable.text is not None
    metadata = gguf_metadata(portable.text, N_TOKENS)
    wanted = open_embedder(folder, device="cpu").embed(TEXTS)
    last = [unit(states(folder, backend(frames=False).encode(text).ids)[-1]) for text in TEXTS]
    for name, said in {"a": {}, "b": {"llama.pooling_type": 1}}.items():
        path = tmp_path / f"{name}.gguf"
        write_gguf(path, portable.model, settings, metadata | said, storage="F32")  # type: ignore[arg-type]
        torch.testing.assert_close(open_embedder(path, device="cpu").embed(TEXTS), wanted)
    for pooling in (3, 4):
        path = tmp_path / f"{pooling}.gguf"
        said = metadata | {"llama.pooling_type": pooling}
        write_gguf(path, portable.model, settings, said, storage="F32")  # type: ignore[arg-type]
        if pooling == 3:
            close(open_embedder(path, device="cpu").embed(TEXTS), last)
            continue
        with pytest.raises(UserError, match=r"'llama\.pooling_type' is 4; Headway computes only"):
            open_embedder(path, device="cpu")


def test_a_text_without_a_token_has_no_direction(tmp_path: Path) -> None:
    model = open_embedder(folder_of(tmp_path / "a", DECODERS["gpt2"]), device="cpu")
    assert model.embed([""]).abs().sum() == 0
    torch.testing.assert_close(model.embed(["", "hi"])[1:], model.embed(["hi"]))


def sentence_folder(
    path: Path, *, modules: Any = None, said: Any = None, pooling: Any = None
) -> Path:
    """A BERT as sentence-transformers writes it, by default by the mean and of length 1."""
    folder = folder_of(path, BERT)
    kinds = modules or ["Transformer", "Pooling", "Normalize"]
    if isinstance(kinds, list) and all(isinstance(each, str) for each in kinds):
        modules = [
            {
                "idx": n,
                "path": f"{n}_{kind}" if n else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for n, kind in enumerate(kinds)
        ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    table = pooling or {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(table), encoding="utf-8")
    if said is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("pooling", "part"),
    [
        ({"pooling_mode_mean_tokens": True}, slice(None)),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, slice(0, 1)),
        ({"pooling_mode_lasttoken": True}, slice(-1, None)),
        ({"pooling_mode": "cls"}, slice(0, 1)),
    ],
)
@pytest.mark.parametrize("normalizes", [True, False])
def test_a_folder_says_how(tmp_path: Path, pooling: Any, part: slice, normalizes: bool) -> None:
    kinds = ["Transformer", "Pooling", "Normalize"][: 3 if normalizes else 2]
    said = {"max_seq_length": 10, "do_lower_case": False}
    folder = sentence_folder(tmp_path / "a", modules=kinds, pooling=pooling, said=said)
    model = open_embedder(folder, device="cpu")
    with pytest.warns(UserWarning, match="text 2 has 25 tokens and was cut to 10"):
        found = model.embed(TEXTS)
    rows = [backend(frames=True).encode(text).ids for text in TEXTS]
    rows = [row if len(row) <= 10 else [*row[:9], row[-1]] for row in rows]
    vectors = [states(folder, row)[part].mean(dim=0) for row in rows]
    close(found, [unit(each) for each in vectors] if normalizes else vectors)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"modules": ["Transformer", "Pooling", "Dense"]}, "a module 'Dense'; Headway computes"),
        ({"modules": {"a": 1}}, r"modules\.json: not a list of modules"),
        ({"modules": [["x"]]}, r"modules\.json: not a list of modules"),
        ({"modules": 5}, r"modules\.json: not a list of modules"),
        ({"said": []}, r"sentence_bert_config\.json: not a table"),
        ({"said": {"do_lower_case": True}}, "'do_lower_case' is True; Headway computes only False"),
        ({"said": {"max_seq_length": "x"}}, "'max_seq_length' is 'x', not a whole number"),
        ({"said": {"max_seq_length": 0}}, "'max_seq_length' is 0"),
        ({"pooling": {"pooling_mode_max_tokens": True}}, "pooling by pooling_mode_max_tokens"),
        ({"pooling": [1]}, r"config\.json: not a table"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path: Path, files: Any, told: str) -> None:
    folder = sentence_folder(tmp_path / "a", **files)
    with pytest.raises(UserError, match=told):
        open_embedder(folder, device="cpu")


def test_more_ids_than_rows_are_refused() -> None:
    model = build_decoder(DECODERS["gpt2"], n_tokens=258)
    tokenizer = TextTokenizer(backend(frames=False), Roles(), where="here")
    with pytest.raises(UserError, match="here: the tokeniser has 259 ids, the model's embedding"):
        Embedder(model, tokenizer, Manner(longest=32), torch.device("cpu"))
