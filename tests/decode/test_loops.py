"""Trap D8: what was cut in the middle of a circle is told from what was cut elsewhere."""

from __future__ import annotations

import random

import pytest

from headway.decode.loops import goes_in_circles, how_it_stopped
from headway.decode.steps import Hypothesis


@pytest.mark.parametrize(
    ("ids", "circles"),
    [
        ([], False),
        ([7], False),
        ([7, 7], False),
        ([7, 7, 7], True),  # all there is
        ([1, 2, 7, 7, 7], False),  # three full stops at the end are no loop
        ([1, 2, *[7] * 11], False),
        ([1, 2, *[7] * 12], True),
        ([*[7] * 40, 1, 2, 3], True),  # it varies its last round
        ([*[7] * 11, *range(30)], False),
        ([9, *[1, 2, 3, 4] * 3], True),
        ([9, *[1, 2, 3, 4] * 2, 1, 2, 3], False),
        ([9, 9, *list(range(20)) * 3], True),
        ([9, 9, *list(range(20)) * 2], False),  # a phrase may come twice
        ([*[1, 2, 3] * 5, 1], True),  # cut inside a round
        (list(range(50)), False),
    ],
)
def test_circles(ids: list[int], circles: bool) -> None:
    assert goes_in_circles(ids) is circles


def test_no_circles_in_what_is_random() -> None:
    draw = random.Random(1)
    assert not any(goes_in_circles(draw.choices(range(5), k=40)) for _ in range(500))


def test_how_it_stopped() -> None:
    loop = [3] * 20
    assert how_it_stopped(Hypothesis(loop, -1.0, -1.0, ended=True)) == "end"
    assert how_it_stopped(Hypothesis(loop, -1.0, -1.0, ended=False)) == "loop"
    assert how_it_stopped(Hypothesis(list(range(20)), -1.0, -1.0, ended=False)) == "limit"
