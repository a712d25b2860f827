"""What tests of runs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from headway.checkpoint.exchange.huggingface import write_model
from headway.models.build import build_decoder
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS


@pytest.fixture(scope="session")
def byte_gpt(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Makes the folder of a toy GPT of so long a context, with a tokeniser of bytes."""

    def made(max_length: int) -> Path:
        path = tmp_path_factory.mktemp("models") / "gpt"
        row = PRESETS["gpt2"] | {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_feed_forward": 32}
        settings = DecoderSettings(**row | {"max_length": max_length})
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        backend = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
        write_model(path, build_decoder(settings, n_tokens=256, seed=3), settings, extra={})
        backend.save(str(path / "tokenizer.json"))
        return path

    return made
