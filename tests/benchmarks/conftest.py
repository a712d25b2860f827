"""The cases are scripts beside each other, not a package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from headway.models.build import build_decoder
from headway.runs.language_model import LanguageModel
from headway.settings.model import DecoderSettings
from headway.tokens.text import Roles, TextTokenizer


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cases, from which they import each other."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def byte_model() -> LanguageModel:
    """A toy language model of bytes that writes anything but the same."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    sizes = {"d_model": 16, "d_feed_forward": 16, "n_heads": 2, "n_layers": 1, "max_length": 2048}
    settings = DecoderSettings(**sizes, order="pre", positions="rotary")  # type: ignore[arg-type]
    model = build_decoder(settings, n_tokens=256, seed=3)
    with torch.no_grad():
        model.head.weight.normal_()
    tokenizer = TextTokenizer(backend, Roles(bos=0))
    return LanguageModel(model, tokenizer, settings, torch.device("cpu"))
