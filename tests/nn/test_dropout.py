"""Dropout: a pure function of (seed, step, micro-batch, place), with the share that it says."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn

from headway.nn.dropout import Dropout, Noise, keep_mask, number_places

NOISE = Noise(seed=3, step=5, micro_batch=1)
KEY = [3, 5, 1, 0]


def dropout(rate: float, place: int = 0) -> Dropout:
    made = Dropout(rate)
    made.place = place
    return made


def test_the_same_key_gives_the_same_mask() -> None:
    hidden = torch.ones(7, 33)
    first = dropout(0.5)(hidden, NOISE)
    torch.manual_seed(99)
    assert torch.equal(dropout(0.5)(hidden, dataclasses.replace(NOISE)), first)


@pytest.mark.parametrize(
    ("noise", "place"),
    [
        (Noise(4, 5, 1), 0),
        (Noise(3, 6, 1), 0),
        (Noise(3, 5, 2), 0),
        (NOISE, 1),
        (Noise(5, 3, 1), 0),  # the same numbers in other places
        (Noise(3, 1, 5), 0),
    ],
)
def test_each_part_of_the_key_changes_the_mask(noise: Noise, place: int) -> None:
    hidden = torch.ones(4000)
    one, other = dropout(0.5)(hidden, NOISE) == 0, dropout(0.5, place)(hidden, noise) == 0
    same = (one == other).float().mean().item()
    assert same == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(4000))  # as unrelated masks agree


def test_one_mask_is_the_same_at_all_positions_and_differs_between_rows() -> None:
    made = Dropout(0.5, one_mask=True)
    made.place = 0
    found = made(torch.ones(50, 7, 40), NOISE)  # (B, T, D)
    assert torch.equal(found, found[:, :1].expand(-1, 7, -1))
    assert found.eq(0).float().mean().item() == pytest.approx(0.5, abs=0.06)
    assert len(found[:, 0].unique(dim=0)) == 50


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_share_and_mean_are_within_statistical_bounds(rate: float) -> None:
    n = 200_000
    mask = keep_mask(torch.Size((n,)), rate, KEY, torch.empty(0))
    rounded = round(rate * 256) / 256
    deviation = math.sqrt(rounded * (1 - rounded) / n)
    assert mask.eq(0).float().mean().item() == pytest.approx(rounded, abs=5 * deviation)
    assert mask.max().item() == pytest.approx(1 / (1 - rounded))
    assert mask.mean().item() == pytest.approx(1.0, abs=5 * deviation / (1 - rounded))
    assert mask.unique().numel() == 2


@pytest.mark.parametrize("size", [1, 7, 8, 9, 64, 1001])
def test_neighbours_are_independent_at_any_size(size: int) -> None:
    masks = torch.stack(
        [
            keep_mask(torch.Size((size,)), 0.5, [0, step, 0, 0], torch.empty(0))
            for step in range(400)
        ]
    )
    dropped = masks.eq(0).float()
    assert dropped.mean(dim=0).sub(0.5).abs().max().item() < 5.5 * 0.5 / math.sqrt(400)
    if size > 1:
        together = (dropped[:, 1:] * dropped[:, :-1]).mean().item()
        assert together == pytest.approx(0.25, abs=5 * 0.5 / math.sqrt(400 * (size - 1)))


def test_no_noise_or_no_rate_is_identity() -> None:
    hidden = torch.randn(3, 4)
    assert dropout(0.5)(hidden, None) is hidden
    assert dropout(0.0)(hidden, NOISE) is hidden


@pytest.mark.parametrize("rate", [0.998, 0.999, 0.99999])
def test_the_highest_rates_still_keep_something_finite(rate: float) -> None:
    dropped = dropout(rate)(torch.ones(20_000), NOISE)
    assert dropped.isfinite().all()
    assert dropped.eq(0).float().mean().item() > 0.99


def test_the_global_generator_is_neither_used_nor_moved() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    dropout(0.5)(torch.ones(100), NOISE)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dtype_and_shape_stay_and_gradients_are_the_mask(dtype: torch.dtype) -> None:
    hidden = torch.ones(2, 3, 5, dtype=dtype, requires_grad=True)
    dropped = dropout(0.25)(hidden, NOISE)
    assert dropped.dtype == dtype
    assert dropped.shape == hidden.shape
    dropped.sum().backward()
    assert hidden.grad is not None
    assert torch.equal(hidden.grad, dropped.detach())


def test_the_mask_of_a_place_does_not_depend_on_the_memory_layout() -> None:
    hidden = torch.ones(6, 4)
    assert torch.equal(dropout(0.5)(hidden.T, NOISE), dropout(0.5)(hidden.T.contiguous(), NOISE))


def test_a_negative_or_huge_seed_is_a_seed() -> None:
    hidden = torch.ones(256)
    found = {
        tuple(dropout(0.5)(hidden, Noise(seed, 0)).tolist())
        for seed in (-1, 0, 1, 2**31, 2**32 - 2)
    }
    assert len(found) == 5


def test_places_are_numbered_apart_in_the_order_of_the_tree() -> None:
    shared = Dropout(0.1)
    network = nn.Sequential(Dropout(0.1), nn.Sequential(Dropout(0.2), nn.Linear(2, 2)), shared)
    network.append(shared)
    number_places(network)
    places = [module.place for module in network.modules() if isinstance(module, Dropout)]
    assert places == [0, 1, 2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_as_well() -> None:
    hidden = torch.ones(100_000, device="cuda")
    before = torch.cuda.get_rng_state()
    first = dropout(0.25)(hidden, NOISE)
    assert torch.equal(first, dropout(0.25)(hidden, NOISE))
    assert not torch.equal(first, dropout(0.25, place=1)(hidden, NOISE))
    assert first.eq(0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert torch.equal(torch.cuda.get_rng_state(), before)
