"""Counting layers that do not look at everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headway.models.build import build_masked
from headway.settings.base import parse
from headway.settings.counting import count_parameters, forward_flops
from headway.settings.model import EncoderSettings

SMALL = {"d_model": 64, "d_feed_forward": 176, "n_heads": 4, "n_layers": 3, "max_length": 512}
V = 512


def settings_of(**own: Any) -> EncoderSettings:
    return parse(EncoderSettings, {"kind": "encoder", **SMALL, **own}, where="test")


@pytest.mark.parametrize(
    "own",
    [
        {"reach": [8, 0], "n_global": 1},
        {"n_keys": 16},
        {"n_keys": 16, "mixes": "keys_and_values"},
        {"n_keys": 16, "mixes": "layers"},
    ],
)
def test_what_reaches_less_learns_more(own: dict[str, Any]) -> None:
    settings = settings_of(**own)
    with torch.device("meta"):
        built = sum(weight.numel() for weight in build_masked(settings, n_tokens=V).parameters())
    assert count_parameters(settings, V).all == built


def test_what_reaches_less_computes_less() -> None:
    scores = {
        str(own): forward_flops(settings_of(**own), V, 100)["scores"]
        for own in ({}, {"reach": [8]}, {"reach": [8, 0, 0]}, {"n_keys": 16}, {"reach": [400]})
    }
    full = 3 * 2.0 * 64 * 100
    shares = [1.0, 9 / 100, (9 + 100 + 100) / 300, 16 / 100, 1.0]
    assert list(scores.values()) == pytest.approx([full * share for share in shares])
