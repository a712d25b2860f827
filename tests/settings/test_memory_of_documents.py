"""Long rows of documents: on a CPU they are attended to in blocks, and no mask is held."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from headway.batches.packed import PackedBatch
from headway.models.build import build_decoder
from headway.nn import attend
from headway.scaling.costs import moved_a_flop, place
from headway.scaling.hardware import load_hardware
from headway.scaling.shapes import shape_of
from headway.settings.memory import Batch, training_bytes
from headway.settings.model import DecoderSettings
from headway.settings.reaching import CPU_CROSSING_DOCUMENTS
from headway.training.objectives import PredictNext

V, LONG = 512, math.isqrt(CPU_CROSSING_DOCUMENTS["training"])
SETTINGS: dict[str, Any] = {"n_layers": 3, "d_model": 64, "d_feed_forward": 176, "n_heads": 4}
SETTINGS |= {"n_kv_heads": 2, "positions": "rotary", "order": "pre", "dropout": 0.0}


def measured(settings: DecoderSettings, T: int, peak: Any, *, recomputes: bool) -> int:
    """The most bytes of a step on one row of two documents and of one token."""
    ids = torch.randint(0, V, (1, T), generator=torch.Generator().manual_seed(1))
    numbers = (torch.arange(T) >= T // 2).long() + (torch.arange(T) >= T - 1)
    batch = PackedBatch(ids, ids, torch.ones_like(ids, dtype=torch.bool), numbers[None])
    with peak:
        model = build_decoder(settings, n_tokens=V)
        for module in model.modules():
            if hasattr(module, "recomputes"):
                module.recomputes = recomputes
        weights: list[nn.Parameter] = list(model.parameters())
        optimizer = torch.optim.AdamW(weights, fused=True)
        for _ in range(2):
            (losses,) = PredictNext(0.0)(model, batch, None, "float32").values()
            losses.objective.backward()
            del losses
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return int(peak.most)


@pytest.mark.parametrize(
    ("T", "reach", "recomputes"),
    [
        (LONG, [0], False),
        (LONG, [0], True),
        (LONG, [LONG // 3], False),  # a window that is too wide for a band
        (LONG - 1, [0], False),
    ],
)
def test_the_peak_is_within_a_tenth_of_what_is_allocated(
    T: int, reach: list[int], recomputes: bool, peak_of: Callable[[], Any]
) -> None:
    """Up to one token less there is a mask: what is counted goes by what is chosen."""
    settings = DecoderSettings(**SETTINGS, reach=reach, max_length=LONG)
    batch = Batch(1, T, recomputes=recomputes, device="cpu")
    found = training_bytes(settings, V, batch).peak
    assert found == pytest.approx(measured(settings, T, peak_of(), recomputes=recomputes), rel=0.1)


def test_an_accelerator_still_has_the_mask(
    monkeypatch: pytest.MonkeyPatch, peak_of: Callable[[], Any]
) -> None:
    """`fused` is what is chosen there, whatever the length: on a CPU it holds the same tensors."""
    monkeypatch.setattr(attend, "choose", lambda *parts: "fused")
    settings = DecoderSettings(**SETTINGS, max_length=LONG)
    got = measured(settings, LONG, peak_of(), recomputes=False)
    assert training_bytes(settings, V, Batch(1, LONG)).peak == pytest.approx(got, rel=0.1)


@pytest.mark.parametrize(
    "other",
    [{"dtype": "bfloat16"}, {"packed": False}, {"attention": "reference"}, {"length": LONG - 1}],
)
def test_only_there_it_is_another_sum(other: dict[str, Any]) -> None:
    settings = DecoderSettings(**SETTINGS, max_length=LONG)
    found = [
        training_bytes(settings, V, Batch(**{"rows": 1, "length": LONG, "device": device} | other))
        for device in ("cpu", "accelerator")
    ]
    assert found[0] == found[1]


def test_a_plan_for_a_processor_goes_by_it() -> None:
    """More rows of 2,048 tokens fit, and less is moved; on a card all stays."""
    hardware = load_hardware()
    shape = shape_of(1e6, length=LONG, n_tokens=512)
    laptop = hardware.find("laptop-cpu").model_copy(update={"memory": 0.4})
    card = laptop.model_copy(update={"device": "accelerator"})
    assert (laptop.device, hardware.find("h100-sxm").device) == ("cpu", "accelerator")
    here, there = place(shape, laptop, 1), place(shape, card, 1)
    assert here is not None
    assert there is not None
    assert here.bytes.peak / here.rows < 0.9 * there.bytes.peak / there.rows
    assert moved_a_flop(shape, "float32", "cpu") < moved_a_flop(shape, "float32", "accelerator")
