"""What is refused as a translator for CTranslate2."""

from __future__ import annotations

from typing import Any

import pytest

from headway.checkpoint.exchange.ctranslate import not_computed
from headway.settings.model import TransformerSettings

SMALL: dict[str, Any] = {
    "d_model": 16,
    "d_feed_forward": 16,
    "n_heads": 2,
    "n_encoder_layers": 1,
    "n_decoder_layers": 2,
}


@pytest.mark.parametrize(
    "changed",
    [
        {"norm": "lecture"},
        {"norm": "rms"},
        {"score": "dot"},
        {"positions": "rotary"},
        {"feed_forward": "swiglu"},
        {"residual": False},
        {"norm_embedding": True},
        {"reach": (4,)},
        {"n_kv_heads": 1},
        {"d_head": 6},
    ],
)
def test_what_it_does_not_compute_is_named(changed: dict[str, Any]) -> None:
    assert not_computed(TransformerSettings(**SMALL)) == []
    assert not_computed(TransformerSettings(**SMALL | changed)) == list(changed)


def test_what_it_holds_may_be_anything() -> None:
    held = {"bias": False, "attention_bias": True, "norm_eps": 1e-3, "order": "pre", "tie": "none"}
    assert not_computed(TransformerSettings(**SMALL | held)) == []
