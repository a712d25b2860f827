"""The memory of a device that has a part of everything, against sums made by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from headway.models.build import build, build_decoder, build_masked
from headway.settings.base import parse
from headway.settings.counting import Countable, count_parameters
from headway.settings.memory import Batch, training_bytes
from headway.settings.model import DecoderSettings, EncoderSettings, TransformerSettings
from headway.training.ranks import _units

V, SHARDS = 500, 4
SIZES = {"d_model": 32, "d_feed_forward": 72, "n_heads": 4, "max_length": 64, "dropout": 0.0}
KINDS: list[tuple[type[Countable], dict[str, Any]]] = [
    (DecoderSettings, {"n_layers": 3, "norm": "rms", "order": "pre", "positions": "rotary"}),
    (DecoderSettings, {"n_layers": 3, "tie": "none"}),
    (EncoderSettings, {"n_layers": 3}),
    (EncoderSettings, {"n_layers": 3, "reach": [8, 0, 8], "n_global": 2}),
    (EncoderSettings, {"n_layers": 3, "n_keys": 16, "pooler": False}),
    (EncoderSettings, {"n_layers": 3, "n_keys": 16, "mixes": "layers", "pooler": False}),
    (TransformerSettings, {"n_encoder_layers": 2, "n_decoder_layers": 2}),
]


def settings_of(kind: type[Countable], own: dict[str, Any]) -> Countable:
    return parse(kind, {**SIZES, **own}, where="test")


def network(settings: Countable) -> nn.Module:
    with torch.device("cpu"):
        if isinstance(settings, TransformerSettings):
            return build(settings, n_source=V, n_target=V)
        if isinstance(settings, DecoderSettings):
            return build_decoder(settings, n_tokens=V)
        return build_masked(settings, n_tokens=V)


def size(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize(("kind", "own"), KINDS)
def test_what_is_gathered_is_there_whole(kind: type[Countable], own: dict[str, Any]) -> None:
    """The units are those of training: a block while it is used, the rest for the whole batch."""
    settings = settings_of(kind, own)
    units = [size(unit) for unit in _units(network(settings))]
    N = count_parameters(settings, V).all
    largest, rest = max(units, default=0), N - sum(units)
    alone, shared = (
        training_bytes(settings, V, Batch(1, 8), shards=n, judges=False) for n in (1, SHARDS)
    )
    # Few tokens: the most is held as backward ends. Of weights, gradients and both moments of Adam
    # a quarter; the rest whole, with its gradients; two blocks (one comes as one goes), with theirs
    whole = 4 * (rest + rest + 2 * (largest + largest))
    assert shared.peak - 16 * N // SHARDS - whole == alone.peak - 16 * N
    assert (shared.weights, shared.gradients, shared.optimizer) == (N, N, 2 * N)


@pytest.mark.parametrize("recomputes", [False, True])
def test_weights_cast_to_bfloat16_are_whole_on_each_device(recomputes: bool) -> None:
    """Nothing mixes dtypes but autocast, which casts a gathered weight and keeps that."""
    settings = settings_of(*KINDS[0])
    D, F = 32, 72
    casts = 2 * 3 * (4 * D * D + 2 * D * F)  # of three layers: attention, and up and down
    for shards in (1, SHARDS):
        one, two = (
            training_bytes(
                settings, V, Batch(rows, 8, "bfloat16", recomputes=recomputes), shards=shards
            ).activations
            for rows in (1, 2)
        )
        assert 2 * one - two == (0 if recomputes else casts)  # what does not grow with the rows


def test_the_first_device_has_the_whole_model_beside_its_part() -> None:
    settings = settings_of(*KINDS[0])
    N = count_parameters(settings, V).all
    first, other = (
        training_bytes(settings, V, Batch(1, 8), shards=SHARDS, judges=judges)
        for judges in (True, False)
    )
    assert (first.judged, other.judged) == (4 * N, 0)
    assert first.peak - other.peak == 4 * N
    assert training_bytes(settings, V, Batch(1, 8)).judged == 0
