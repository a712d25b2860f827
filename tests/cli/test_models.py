"""`headway generate` and `headway embed` on what other tools made: names that scripts rely on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.models.build import build_decoder, build_masked
from headway.runs.export import write_portable
from headway.runs.portable import Portable
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.presets import PRESETS
from headway.tokens.text import Roles, TextTokenizer

SMALL = {"n_layers": 2, "d_model": 32, "d_feed_forward": 64, "n_heads": 2, "max_length": 48}
MODELS = {
    "llama": DecoderSettings(**PRESETS["smollm2-135m"] | SMALL | {"n_kv_heads": 1}),
    "gpt2": DecoderSettings(**PRESETS["gpt2"] | SMALL),
    "bert": EncoderSettings(**SMALL, norm_eps=1e-12),
}
PROMPT = "hi, the sun"


def tokenizer() -> TextTokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Backend(
        models.BPE({token: id for id, token in enumerate([*letters, "hi"])}, [("h", "i")])
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    return TextTokenizer(made, Roles(bos=257, ends=frozenset({258}), adds_bos=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The model "llama", "gpt2" or "bert" as a folder, or "llama.gguf" as a file."""
    made = tmp_path_factory.mktemp("models")

    def path(name: str) -> Path:
        if (made / name).exists():
            return made / name
        if name.endswith(".gguf"):
            pytest.importorskip("gguf", reason="gguf is not installed")
            portable = Portable.of_folder(path(name.removesuffix(".gguf")))
            write_portable(portable, made / name, format="gguf", type="f32")
            return made / name
        settings = MODELS[name]
        build = build_masked if isinstance(settings, EncoderSettings) else build_decoder
        model = build(settings, n_tokens=260, seed=3)  # type: ignore[operator]
        with torch.no_grad():
            for weight in model.parameters():
                draw = torch.Generator().manual_seed(5)
                weight.add_(torch.randn(weight.shape, generator=draw) * 0.3)
        portable = Portable.of_text_model(model, settings, tokenizer())
        write_portable(portable, made / name, format="hf")
        return made / name

    return path


def written(said: Any, path: Path) -> Any:
    assert said.code == 0, said
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["llama", "llama.gguf", "gpt2"])
def test_generate_writes_the_new_part_alone(
    name: str, place: Callable[[str], Path], cli: Callable[..., Any], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    out = tmp_path / "out.json"
    said = cli(
        *("generate", place(name), "--prompt", PROMPT),
        *("--max-new-tokens", 12, "--greedy", "--json", out),
    )
    found = written(said, out)
    assert {"text", "ids", "reason"} <= found.keys()
    folder = place(name.removesuffix(".gguf"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor(tokenizer().prompts([PROMPT]))
    wanted = theirs.generate(ids, do_sample=False, max_new_tokens=12)[0, ids.shape[1] :].tolist()
    ended = wanted[-1] == 258
    assert found["ids"] == (wanted[:-1] if ended else wanted)
    assert found["reason"] == ("end" if ended else "limit")
    assert found["text"] == tokenizer().decode([found["ids"]])[0]
    assert said.out.decode().rstrip("\n") == PROMPT + found["text"]


def test_a_prompt_that_is_refused_is_not_repeated(
    place: Callable[[str], Path], cli: Callable[..., Any]
) -> None:
    said = cli("generate", place("gpt2"), "--prompt", PROMPT * 99)
    assert (said.code, said.out) == (2, b""), said
    assert "shorten it" in said.error


@pytest.mark.parametrize("name", ["llama", "llama.gguf", "gpt2", "bert"])
def test_embed_writes_a_vector_a_text(
    name: str, place: Callable[[str], Path], cli: Callable[..., Any], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    texts = ["hi there", "été", "the sun is up, isn't it"]
    out = tmp_path / "out.json"
    stdin = ("\n".join(texts) + "\n").encode()
    found = written(cli("embed", place(name), "--json", out, stdin=stdin), out)
    assert found["texts"] == texts
    folder = place(name.removesuffix(".gguf"))
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    made = transformers.AutoTokenizer.from_pretrained(folder)
    for text, vector in zip(texts, found["embeddings"], strict=True):
        with torch.inference_mode():
            states = theirs(torch.tensor([made(text).input_ids])).last_hidden_state[0]
        mean = states.mean(dim=0)
        torch.testing.assert_close(torch.tensor(vector), mean / mean.norm(), atol=1e-5, rtol=1e-4)
    ranked = cli("embed", place(name), "--query", texts[1], stdin=stdin).out.decode()
    assert ranked.splitlines()[0] == f"1.0000\t{texts[1]}"


def test_a_draft_is_told_of(
    place: Callable[[str], Path], cli: Callable[..., Any], tmp_path: Path
) -> None:
    out, found = tmp_path / "out.json", []
    for more in ([], ["--draft", "lookup"], ["--draft", place("llama")]):
        words = ("generate", place("llama"), "--prompt", PROMPT, "--greedy", *more)
        found.append(written(cli(*words, "--max-new-tokens", 20, "--json", out), out))
    assert found[0]["ids"] == found[1]["ids"] == found[2]["ids"]
    assert [each["guessed"] > 0 for each in found[::2]] == [False, True]
    assert 0 < found[2]["accepted"] <= found[2]["guessed"]
    weights = place("gpt2") / "model.safetensors"
    words = ("generate", place("llama"), "--prompt", "a", "--draft", place("gpt2"))
    assert cli(*words, "--json", weights).code != 0
