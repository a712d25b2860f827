"""`headway info` of models from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.checkpoint.exchange.huggingface import write_model
from headway.models.build import build_decoder, build_masked
from headway.runs.text_tokenizers import tokenizer_files
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.text_training import train_text_tokenizer

Cli = Callable[..., Any]
SMALL = {"d_model": 16, "d_feed_forward": 24, "n_heads": 2, "n_layers": 2, "max_length": 32}
LLAMA = {
    **SMALL,
    "order": "pre",
    "norm": "rms",
    "feed_forward": "swiglu",
    "positions": "rotary",
    "bias": False,
}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    texts = ["the cat sat on the mat"] * 3
    made = train_text_tokenizer(TokenizerSettings(size=270, rule="gpt2"), texts, masks=False)
    settings = DecoderSettings(**LLAMA)
    folder = tmp_path / "llama"
    write_model(folder, build_decoder(settings, n_tokens=len(made), seed=1), settings)
    for name, text in tokenizer_files(made).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_folders_and_files_say_what_they_are(llama: Path, cli: Cli, tmp_path: Path) -> None:
    found: dict[str, dict[str, str]] = {}
    pytest.importorskip("gguf", reason="gguf is not installed")
    assert cli("export", llama, tmp_path / "a.gguf", "--format", "gguf").code == 0
    for name in ("llama", "a.gguf"):
        said = cli("info", tmp_path / name, "--json", tmp_path / "i.json")
        assert said.code == 0, said.err
        found[name] = json.loads((tmp_path / "i.json").read_text(encoding="utf-8"))
        assert found[name]["model"].startswith("decoder: ")
        assert "max_length 32" in found[name]["model"]
        assert found[name]["ends with"] == "</s>"
        assert found[name]["chat template"] == "no"
    assert found["llama"]["parameters"] == found["a.gguf"]["parameters"]
    assert "F16" in found["a.gguf"]["tensors"]


def test_an_encoder_and_what_is_none(cli: Cli, tmp_path: Path) -> None:
    settings = EncoderSettings(**SMALL)
    write_model(tmp_path / "bert", build_masked(settings, n_tokens=40, seed=1), settings)
    assert b"encoder: " in cli("info", tmp_path / "bert").out
    assert "no such preset; presets: transformer-base, " in cli("info", tmp_path / "nothing").error
    for name in ("notes", "notes.gguf"):
        (tmp_path / name).write_text("a note\n", encoding="utf-8")
    assert "not a GGUF file; copy it again" in cli("info", tmp_path / "notes.gguf").error
    assert "this is a file, and no model; name the folder" in cli("info", tmp_path / "notes").error
    assert "cannot be read" in cli("info", tmp_path / "nothing.gguf").error
