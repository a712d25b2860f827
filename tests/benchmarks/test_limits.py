"""The limits of the machine are counted as one counts them by hand."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch

from headway.models.build import build
from headway.settings.model import DecoderSettings, TransformerSettings
from headway.training.utilisation import Operations


@pytest.fixture
def limits() -> ModuleType:
    return importlib.import_module("limits")


def test_a_text_is_counted_by_hand(limits: ModuleType) -> None:
    """2 layers, width 8, feed-forward 16, 10 ids, 5 tokens: a query sees 3 keys on average."""
    settings = DecoderSettings(n_layers=2, d_model=8, d_feed_forward=16, n_heads=2, max_length=5)
    layer = 4 * 8 * 8 + 2 * 8 * 16  # weights that a token meets
    attention = 2 * 8 * 3  # of scores and of weighted values, for 3 keys
    forward = 2 * (2 * (layer + attention) + 8 * 10)
    assert limits.text_flops(settings, 10, 5) == 3 * forward


SMALL = TransformerSettings(
    d_model=8, d_feed_forward=16, n_heads=2, n_encoder_layers=2, n_decoder_layers=3
)


def test_pairs_are_counted_by_hand(limits: ModuleType) -> None:
    """4 source tokens and 6 target tokens, which see 3.5 on average."""
    D, F, S, T = 8, 16, 4, 6
    source = 2 * (4 * D * D + 2 * D * F + 2 * D * S)  # each of 2 layers
    source += 3 * 2 * D * D  # its keys and values in 3 decoder layers
    target = 3 * (4 * D * D + 2 * D * 3.5 + 2 * D * D + 2 * D * S + 2 * D * F) + D * 10
    wanted = 3 * 2 * (S * source + T * target) / T
    assert limits.pair_flops(SMALL, 10, S, T) == pytest.approx(wanted)


def test_pairs_are_what_the_products_of_a_step_are(limits: ModuleType) -> None:
    """But for the keys that come later, which are computed for nothing."""
    model = build(SMALL.model_copy(update={"dropout": 0.0}), n_source=10, n_target=10, seed=1)
    source, target = torch.full((1, 4), 4), torch.full((1, 6), 4)
    with Operations() as counted:
        model(source, torch.ones_like(source, dtype=torch.bool), target).sum().backward()
    unseen = 3 * 3 * 2 * (2 * 8) * (6 - 3.5)  # in 3 layers: scores and weighted values, 3 times
    assert counted.flops / 6 == pytest.approx(limits.pair_flops(SMALL, 10, 4, 6) + unseen)


def test_the_limit_of_a_training_is_the_rate_of_products(
    limits: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def rate(dtype: torch.dtype, device: torch.device, threads: int) -> float:
        asked.append((dtype, device.type, threads))
        return 1e9

    monkeypatch.setattr(limits, "matrix_rate", rate)
    assert limits.training_limit(1e6, "bfloat16") == 1000.0
    assert limits.training_limit(2e6, "float32") == 500.0
    threads = torch.get_num_threads()
    assert asked == [(torch.bfloat16, "cpu", threads), (torch.float32, "cpu", threads)]
