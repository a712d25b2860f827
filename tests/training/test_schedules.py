"""Learning rates: each formula at its borders, and what holds for all of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headway.settings.training import TrainSettings
from headway.training.schedules import learning_rate

SCHEDULES = ("inverse_sqrt", "cosine", "linear", "constant", "wsd")
PEAK = 0.5


def rates(schedule: str, steps: int = 100, warmup: int = 10, **more: float) -> list[float]:
    """The rate of step i is element i - 1."""
    made = TrainSettings(steps=steps, schedule=schedule, warmup=warmup, learning_rate=PEAK, **more)
    return [learning_rate(made, step) for step in range(1, steps + 1)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_warm_up_is_a_line_to_the_peak(schedule: str) -> None:
    found = rates(schedule, warmup=10)
    assert found[:10] == pytest.approx([PEAK * step / 10 for step in range(1, 11)], rel=1e-12)
    assert found[9] == max(found) == PEAK
    assert rates(schedule, warmup=0)[0] == pytest.approx(PEAK, rel=0.02)
    assert rates(schedule, warmup=1)[0] == PEAK
    # a warm-up longer than the training is a part of the line
    long = rates(schedule, steps=5, warmup=10)
    assert long == pytest.approx([PEAK * step / 10 for step in range(1, 6)], rel=1e-12)


def test_inverse_square_root_is_the_papers() -> None:
    """Vaswani et al. 2017, section 5.3: d_model^-½ · min(step^-½, step · warmup^-1.5)."""
    d_model, warmup = 512, 40
    peak = d_model**-0.5 * warmup**-0.5
    made = TrainSettings(steps=400, schedule="inverse_sqrt", warmup=warmup, learning_rate=peak)
    for step in range(1, 401):
        paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(made, step) == pytest.approx(paper, rel=1e-12)
    assert rates("inverse_sqrt", warmup=0)[3] == pytest.approx(PEAK / 2)


@pytest.mark.parametrize("final_rate", [0.0, 0.1])
def test_cosine_and_linear_fall_to_the_final_rate(final_rate: float) -> None:
    for step in range(10, 101):
        done = (step - 10) / 90
        line = final_rate + (1 - final_rate) * (1 - done)
        wave = final_rate + (1 - final_rate) * (1 + math.cos(math.pi * done)) / 2
        found = {
            name: rates(name, final_rate=final_rate)[step - 1] for name in ("linear", "cosine")
        }
        assert found["linear"] == pytest.approx(PEAK * line, abs=1e-12)
        assert found["cosine"] == pytest.approx(PEAK * wave, abs=1e-12)


def test_wsd_has_a_plateau_and_falls_at_the_end() -> None:
    found = rates("wsd", decay=0.2, final_rate=0.1)
    assert set(found[9:80]) == {PEAK}
    fall = [PEAK * (1 - 0.9 * done / 20) for done in range(21)]
    assert found[79:] == pytest.approx(fall, rel=1e-12)
    assert set(rates("wsd", decay=0.0)[9:]) == {PEAK}
    assert rates("wsd", decay=1.0) == pytest.approx(rates("linear"), abs=1e-12)


def test_constant_stays_at_the_peak() -> None:
    assert set(rates("constant", final_rate=0.1)[9:]) == {PEAK}


@given(
    schedule=some.sampled_from(SCHEDULES),
    steps=some.integers(1, 500),
    warmup=some.integers(0, 600),
    final_rate=some.just(0.0) | some.floats(1e-6, 1.0),
    decay=some.floats(0.0, 1.0),
    data=some.data(),
)
@settings(deadline=None, max_examples=300)
def test_rates_are_positive_and_no_more_than_the_peak(
    schedule: str, steps: int, warmup: int, final_rate: float, decay: float, data: some.DataObject
) -> None:
    made = TrainSettings(
        steps=steps,
        schedule=schedule,
        warmup=warmup,
        learning_rate=PEAK,
        final_rate=final_rate,
        decay=decay,
    )
    step = data.draw(some.integers(1, steps))
    rate, before = learning_rate(made, step), learning_rate(made, max(step - 1, 1))
    lowest = final_rate * PEAK if step > warmup and schedule in ("cosine", "linear", "wsd") else 0.0
    assert lowest * (1 - 1e-9) <= rate <= PEAK
    # 0 only where it was asked for: at the last step, as the final rate
    assert rate > 0.0 or (step == steps and final_rate == 0.0)
    if step > max(warmup, 1):
        assert rate <= before
