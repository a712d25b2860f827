"""Counting layers that do not look at everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.models.build import build_decoder, build_masked
from headway.nn import attend, banded
from headway.nn.visibility import causal, full
from headway.settings import reaching
from headway.settings.base import parse
from headway.settings.counting import count_parameters, forward_flops, generating_flops
from headway.settings.memory import Batch, training_bytes
from headway.settings.model import DecoderSettings, EncoderSettings

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


@pytest.mark.parametrize("T", [1, 3, 100])
@pytest.mark.parametrize("kind", [EncoderSettings, DecoderSettings])
def test_what_reaches_less_sees_less(kind: Any, T: int) -> None:
    """The useful part of the work: as many keys as the masks leave."""
    own = {"kind": "decoder" if kind is DecoderSettings else "encoder", **SMALL}
    for reach in ([0], [8], [8, 0, 0], [400]):
        settings = parse(kind, {**own, "reach": reach}, where="test")
        looks = causal() if kind is DecoderSettings else full()
        seen = []
        for width in (reach * 3)[:3]:
            mask = (looks.within(width) if width else looks).mask(T, T, torch.device("cpu"))
            seen.append(T if mask is None else mask.sum().item() / T)
        found = forward_flops(settings, V, T, useful=True)["scores"]
        assert found == pytest.approx(2.0 * 64 * sum(seen))


@pytest.mark.parametrize("T", [1, 3, 100])
def test_gaps_are_counted_as_the_masks_leave_them(T: int) -> None:
    settings = settings_of(reach=[8, 8, 0], dilation=[1, 3, 7])
    cpu = torch.device("cpu")
    masks = [full().within(8, 0, apart).mask(T, T, cpu) for apart in (1, 3)]
    seen = [T, *(mask.sum().item() / T for mask in masks if mask is not None)]
    found = forward_flops(settings, V, T, useful=True)["scores"]
    assert found == pytest.approx(2.0 * 64 * sum(seen))


def test_a_new_token_meets_the_keys_that_a_window_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "choose", lambda *parts: "reference")  # its products are counted
    settings = DecoderSettings(**SMALL, reach=[8, 0], order="pre", positions="rotary")
    model, ids = build_decoder(settings, n_tokens=V), torch.zeros(1, 100, dtype=torch.long)
    with torch.inference_mode():
        slots = model.slots(1, 101)
        slots.add(1)
        _, state = model.read(ids, slots.part(0, 1))
        with FlopCounterMode(display=False) as counter:
            model.step(ids[:, :1], state)
    wanted = generating_flops(settings, V, 100)
    assert counter.get_total_flops() == pytest.approx(sum(wanted.values()))


def test_bands_are_counted_with_the_numbers_that_they_have() -> None:
    assert reaching.LEAST == banded.LEAST
    assert (reaching.LINE, reaching.SLAB) == (banded.LINE, banded.SLAB)
    assert reaching.BAND_CROSSING == attend.BAND_CROSSING


def test_long_texts_are_linear() -> None:
    """Operations and bytes a token do not grow with the text."""
    windows = {"reach": [8], "n_global": 1}
    rows = {
        "windows": windows,
        "gaps": {**windows, "dilation": [3]},
        "mixtures": {"n_keys": 16},
        "all": {},
    }
    for name, own in rows.items():
        settings = settings_of(**own)
        flops = [forward_flops(settings, V, T)["scores"] for T in (2**10, 2**14)]
        kept = [
            training_bytes(settings, V, Batch(1, T, attention="reference")).activations / T
            for T in (2**10, 2**14)
        ]
        assert (flops[1] / flops[0] > 10, kept[1] / kept[0] > 5) == (name == "all",) * 2
