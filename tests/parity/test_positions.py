"""Positions against the papers' formulas in float64."""

from __future__ import annotations

import math

import pytest
import torch

from headway.nn.positions import Learned, Rotary, Sinusoidal

K = 8


@pytest.mark.parametrize("width", [2, 6, 7, 16])
def test_sinusoidal_is_the_formula(width: int) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i + 1) = cos of the same (section 3.5)."""
    places = [0, 1, 2, 63, 511, 5000]
    found = Sinusoidal(width)(torch.tensor(places))
    assert found.shape == (len(places), width)
    for row, place in zip(found.tolist(), places, strict=True):
        for index, value in enumerate(row):
            angle = place / 10_000 ** (index // 2 * 2 / width)
            wanted = math.cos(angle) if index % 2 else math.sin(angle)
            assert value == pytest.approx(wanted, abs=2e-3 if place > 1000 else 2e-4)


def test_positions_of_rows_are_looked_up_a_row() -> None:
    places = torch.tensor([[0, 1, 2], [5, 6, 7]])
    for positions in (Sinusoidal(6), Learned(9, 6)):
        whole = positions(torch.arange(9))
        assert torch.equal(positions(places), whole[places])


def test_learned_begins_as_large_as_the_embeddings() -> None:
    torch.manual_seed(0)
    learned = Learned(100, 64)
    assert learned.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
def test_turning_is_multiplication_by_complex_numbers(theta: float) -> None:
    """x_i + i x_{i+K/2} times e^(i p theta^(-2i/K)): halves are the parts of a complex number."""
    torch.manual_seed(0)
    heads, places = torch.randn(2, 3, 5, K), torch.tensor([0, 1, 2, 17, 400])
    turned = Rotary(K, theta)(places).turn(heads)
    numbers = torch.complex(heads[..., : K // 2].double(), heads[..., K // 2 :].double())
    speeds = torch.tensor([theta ** (-2 * i / K) for i in range(K // 2)], dtype=torch.double)
    angles = places.double()[:, None] * speeds  # (T, K/2)
    wanted = numbers * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(turned[..., : K // 2].double(), wanted.real, rtol=0, atol=1e-4)
    torch.testing.assert_close(turned[..., K // 2 :].double(), wanted.imag, rtol=0, atol=1e-4)


def test_pairs_of_neighbours_are_halves_after_a_permutation() -> None:
    """The layout of the paper's own code (x_0, x_1), (x_2, x_3)… is ours, permuted."""
    torch.manual_seed(1)
    heads, places = torch.randn(1, 2, 4, K), torch.arange(4)
    numbers = torch.view_as_complex(heads.view(1, 2, 4, K // 2, 2).contiguous())
    angles = places[:, None] * 10_000.0 ** (-torch.arange(0, K, 2) / K)
    neighbours = torch.view_as_real(numbers * torch.polar(torch.ones_like(angles), angles))
    to_halves = torch.cat((torch.arange(0, K, 2), torch.arange(1, K, 2)))
    ours = Rotary(K, 10_000.0)(places).turn(heads[..., to_halves])
    torch.testing.assert_close(ours, neighbours.flatten(-2)[..., to_halves])


def test_the_score_depends_on_the_distance_only() -> None:
    torch.manual_seed(2)
    query, key = torch.randn(1, 1, 1, K), torch.randn(1, 1, 1, K)
    rotary = Rotary(K, 10_000.0)

    def score(i: int, j: int) -> float:
        turned = rotary(torch.tensor([i])).turn(query), rotary(torch.tensor([j])).turn(key)
        return (turned[0] * turned[1]).sum().item()

    for distance in (0, 1, 3, 20):
        for j in (0, 1, 40, 300):
            assert score(j + distance, j) == pytest.approx(score(distance, 0), abs=1e-3)
    assert abs(score(5, 0) - score(0, 5)) > 1e-3  # it has a direction
    assert abs(score(1, 0) - score(2, 0)) > 1e-3


def test_a_table_has_the_offset_that_was_asked_for() -> None:
    rotary = Rotary(K, 10_000.0)
    tables = [rotary(torch.arange(offset, offset + 3)) for offset in (0, 5, 0)]
    assert not torch.equal(tables[0].cos, tables[1].cos)
    assert torch.equal(tables[0].sin, tables[2].sin)
    assert torch.equal(tables[1].cos, rotary(torch.arange(8)).cos[5:])


def test_rotation_runs_over_positions_not_heads() -> None:
    heads = torch.randn(1, 2, 3, K)
    same = heads[:, :1, :1].expand(1, 2, 3, K)
    turned = Rotary(K, 10_000.0)(torch.arange(3)).turn(same)
    assert torch.equal(turned[:, 0], turned[:, 1])
    assert not torch.equal(turned[:, :, 0], turned[:, :, 1])
    assert torch.equal(turned[:, :, 0], same[:, :, 0])  # position 0 does not turn


def test_rows_may_have_positions_of_their_own() -> None:
    heads = torch.randn(2, 3, 4, K)
    places = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 9]])
    rotary = Rotary(K, 10_000.0)
    together = rotary(places).turn(heads)
    for row in range(2):
        alone = rotary(places[row]).turn(heads[row : row + 1])
        assert torch.equal(together[row : row + 1], alone)


def test_angles_are_float32_whatever_is_turned() -> None:
    heads = torch.randn(1, 1, 2, K)
    places = torch.tensor([3000, 3001])
    turned = Rotary(K, 10_000.0)(places).turn(heads.bfloat16())
    assert turned.dtype == torch.bfloat16
    exact = Rotary(K, 10_000.0)(places).turn(heads.bfloat16().float())
    torch.testing.assert_close(turned, exact.bfloat16(), rtol=0, atol=0)
