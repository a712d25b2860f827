"""Filling masks with models from elsewhere: folders, tokenisers of several kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.huggingface import write_model
from headway.models.build import build_masked
from headway.models.encoder import MaskedLanguageModel
from headway.runs.filler import Filler
from headway.runs.open_model import open_filler
from headway.settings.model import EncoderSettings
from headway.tokens.text import Roles, TextTokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "capital", "of", "france", "is", "paris", "play", "##ing", "##ed", ".", ","]
SETTINGS = EncoderSettings(
    n_layers=1, d_model=16, d_feed_forward=32, n_heads=2, max_length=24, norm_eps=1e-12
)


def bert_tokenizer() -> Backend:
    vocab = {word: id for id, word in enumerate([*SPECIALS, *WORDS])}
    made = Backend(models.WordPiece(vocab, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens([AddedToken(each, normalized=False) for each in SPECIALS])
    return made


def model_of(n_tokens: int) -> MaskedLanguageModel:
    model = build_masked(SETTINGS, n_tokens=n_tokens, seed=3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)) * 0.3)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bert"
    write_model(path, model_of(len(SPECIALS) + len(WORDS)), SETTINGS)
    bert_tokenizer().save(str(path / "tokenizer.json"))
    table = {"mask_token": "[MASK]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    (path / "tokenizer_config.json").write_text(json.dumps(table), encoding="utf-8")
    return path


def test_a_bert_folder_fills_as_transformers_does(folder: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = headway.load(folder, device="cpu")
    assert isinstance(model, Filler)
    text = "The capital of [MASK] is [MASK]."
    (found,) = model.fill([text], top=4)
    ids = torch.tensor([bert_tokenizer().encode(text).ids])
    ids = torch.tensor([[2, 5, 6, 7, 4, 9, 4, 14, 3]])
    theirs = transformers.BertForPreTraining.from_pretrained(folder).eval()
    with torch.no_grad():
        wanted = theirs(ids).prediction_logits[0, [4, 6]].softmax(-1)
    for guesses, probabilities in zip(found.masks, wanted, strict=True):
        best = probabilities[5:].topk(4)
        assert [guess.id for guess in guesses] == (best.indices + 5).tolist()
        assert [guess.probability for guess in guesses] == pytest.approx(best.values.tolist())
        assert [guess.token for guess in guesses] == [WORDS[id] for id in best.indices.tolist()]


def test_texts_together_are_as_alone_and_no_special_token_is_a_guess(folder: Path) -> None:
    model = open_filler(folder, device="cpu")
    texts = ["[MASK]", "paris is [MASK] , the capital", "play[MASK] [MASK] [MASK]"]
    together = model.fill(texts, top=100)
    for text, found in zip(texts, together, strict=True):
        (alone,) = model.fill([text], top=100)
        assert alone.text == found.text
        for one, other in zip(alone.masks, found.masks, strict=True):
            assert {guess.id for guess in one} == set(range(5, 16))
            assert [g.probability for g in one] == pytest.approx(
                [g.probability for g in other], abs=1e-6
            )
    assert [len(each.masks) for each in together] == [1, 1, 3]


def say(model: Filler, token: str) -> None:
    """Let the model find one token the likeliest everywhere."""
    bias = model.model.masked.output.bias
    with torch.no_grad():
        bias[model.tokenizer._made.token_to_id(token)] += 1000.0


def test_pieces_are_joined_to_the_word_before(folder: Path) -> None:
    model = open_filler(folder, device="cpu")
    say(model, "##ing")
    assert model.fill(["Paris is play [MASK] , too"])[0].text == "Paris is playing , too"


def test_the_blank_of_a_byte_level_token_is_its_own() -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: id for id, letter in enumerate([*letters, "Ġp", "Ġpa"])}
    made = Backend(models.BPE(vocab, [("Ġ", "p"), ("Ġp", "a")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>", "<mask>"])
    ids = {token: made.token_to_id(token) for token in ("<s>", "</s>", "<mask>")}
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", ids["<s>"]), ("</s>", ids["</s>"])]
    )
    tokenizer = TextTokenizer(made, Roles(mask=ids["<mask>"]))
    model = Filler(model_of(len(tokenizer)), tokenizer, SETTINGS, torch.device("cpu"))
    say(model, "Ġpa")
    assert model._encoded("a <mask>.", 1) == [
        ids["<s>"],
        vocab["a"],
        ids["<mask>"],
        vocab["."],
        ids["</s>"],
    ]
    assert [each.text for each in model.fill(["a [MASK].", "[MASK]b", "a<mask>"])] == [
        "a pa.",
        "pab",
        "a pa",
    ]


def test_mistakes_are_one_message_each(folder: Path, tmp_path: Path) -> None:
    model = open_filler(folder, device="cpu")
    with pytest.raises(UserError, match=r"text 2 has no \[MASK\]"):
        model.fill(["[MASK]", "paris"])
    with pytest.raises(UserError, match="text 1 has 33 tokens; the model reads 24"):
        model.fill(["[MASK] " + "paris " * 30])
    with pytest.raises(UserError, match="a list of texts"):
        model.fill("[MASK]")
    with pytest.raises(UserError, match="0 guesses"):
        model.fill(["[MASK]"], top=0)
    assert model.fill([]) == []
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": null}', encoding="utf-8")
    with pytest.raises(UserError, match="no token that masks others"):
        open_filler(tmp_path)


def test_a_folder_as_bert_base_uncased_is_fills(
    folder: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    """Its norms have their old names, and no file says which token masks others."""
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
    tensors = load_file(folder / "model.safetensors")
    for name in list(tensors):
        if "LayerNorm" in name:
            old = name.replace(".weight", ".gamma").replace(".bias", ".beta")
            tensors[old] = tensors.pop(name)
    save_file(tensors, tmp_path / "model.safetensors")
    text = "the capital of [MASK] is paris ."
    said, wanted = (cli("fill", path, "--text", text) for path in (tmp_path, folder))
    assert said.code == 0, said
    assert said.out == wanted.out
