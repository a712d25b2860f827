"""The models on which every law is tried: rows that cover each setting, with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headway.models.build import build
from headway.models.encoder_decoder import EncoderDecoder
from headway.settings.model import RecurrentSettings, TransformerSettings

VOCABULARY = 17

STACK: dict[str, Any] = {
    "d_model": 16,
    "d_feed_forward": 20,
    "n_heads": 4,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "dropout": 0.0,
    "max_length": 32,
}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "original": {},
    "gpt2-like": {"order": "pre", "positions": "learned", "feed_forward": "gelu_tanh"},
    "llama-like": {
        "order": "pre",
        "positions": "rotary",
        "norm": "rms",
        "feed_forward": "swiglu",
        "n_kv_heads": 2,
        "bias": False,
    },
    "lecture": {"norm": "lecture", "positions": "none", "feed_forward": "gelu"},
    "one-kv-head": {"n_kv_heads": 1, "d_head": 6, "positions": "rotary"},
    "bare": {"norm": "none", "residual": False, "tie": "none"},
    "dot": {"score": "dot", "order": "pre"},
    "bilinear": {"score": "bilinear", "n_kv_heads": 2},
    "low-rank": {"score": "low_rank_bilinear", "score_rank": 2, "tie": "output"},
    "additive": {"score": "additive", "n_kv_heads": 2},
}
RECURRENTS: dict[str, dict[str, Any]] = {
    "gru": {"cell": "gru", "n_layers": 2},
    "lstm": {"cell": "lstm", "bidirectional": False},
    "gru-dot": {"cell": "gru", "score": "dot", "tie": "all"},
    "lstm-scaled": {"cell": "lstm", "score": "scaled_dot", "n_layers": 2},
    "gru-bilinear": {"cell": "gru", "score": "bilinear", "attend_over": "embeddings"},
    "lstm-low-rank": {"cell": "lstm", "score": "low_rank_bilinear", "score_rank": 3},
    "lstm-additive": {"cell": "lstm", "score": "additive", "n_layers": 2, "tie": "output"},
    "lstm-fed": {"cell": "lstm", "score": "additive", "n_layers": 2, "input_feeding": True},
    "gru-fed": {"cell": "gru", "score": "dot", "input_feeding": True, "tie": "output"},
    "gru-additive": {"cell": "gru", "score": "additive", "attend_over": "embeddings"},
}


def settings_of(name: str) -> TransformerSettings | RecurrentSettings:
    if name in TRANSFORMERS:
        return TransformerSettings(**STACK | TRANSFORMERS[name])
    return RecurrentSettings(d_embedding=12, d_hidden=16, **RECURRENTS[name])


def made(name: str) -> EncoderDecoder[Any, Any]:
    """The model of that row, every weight random, gains and biases too."""
    model = build(settings_of(name), n_source=VOCABULARY, n_target=VOCABULARY)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.15)
    return model


@pytest.fixture(params=[*TRANSFORMERS, *RECURRENTS], scope="session")
def model(request: pytest.FixtureRequest) -> EncoderDecoder[Any, Any]:
    """Both kinds, one after the other."""
    return made(request.param)


@pytest.fixture(params=list(TRANSFORMERS), scope="session")
def transformer(request: pytest.FixtureRequest) -> EncoderDecoder[Any, Any]:
    """Transformers only."""
    return made(request.param)
