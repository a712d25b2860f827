"""Fits: constants that are known come back, those of real runs are what others found."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad

from headway.base.errors import UserError
from headway.scaling import pictures
from headway.scaling.frontier import fit_envelope, fit_isoflop
from headway.scaling.huber import LogSumFit
from headway.scaling.laws import ParametricLaw
from headway.scaling.parametric import ParametricFit, fit_parametric
from headway.scaling.points import Floats, Points, read_csv
from headway.scaling.powers import fit_power
from headway.scaling.repeated import effective
from headway.scaling.told import parametric_lines

DATA = os.environ.get("HEADWAY_DATA")
LAW = ParametricLaw(name="known", source="", E=1.8, A=480, B=2000, alpha=0.35, beta=0.36)
Rows = list[tuple[float, float]]


def points(rows: Rows, *, law: ParametricLaw = LAW, noise: float = 0.0) -> Points:
    """What a law gives such sizes and tokens, with noise of its logs."""
    size, tokens = np.array(rows).T
    loss = np.array([law.loss(*row) for row in rows])
    loss *= np.exp(noise * np.random.default_rng(1).standard_normal(len(rows)))
    known = {"params": size, "tokens": tokens, "flop": 6 * size * tokens, "loss": loss}
    return Points("made", [f"run {place}" for place in range(len(rows))], known)


def budgets(law: ParametricLaw, sizes: int = 9) -> Rows:
    """Sizes around the best at seven budgets."""
    rows = []
    for flop in np.geomspace(1e18, 1e21, 7):
        for size in law.optimum(float(flop)).params * np.geomspace(0.25, 4, sizes):
            rows.append((float(size), float(flop / (6 * size))))
    return rows


def test_the_gradient_is_that_of_the_value() -> None:
    made = points(budgets(LAW)[:20])
    terms = np.random.default_rng(2).normal(size=(3, 20, 5))
    sums = LogSumFit(terms, made["loss"], exponents=2)
    weights = np.arange(20.0)
    x = np.array([0.3, -0.2, 0.1, 0.4, 0.6])

    def part(which: int) -> Callable[[Floats], Any]:
        return lambda at: sums.value(at, weights)[which]

    off = check_grad(part(0), part(1), x)
    assert off < 1e-4 * np.linalg.norm(part(1)(x))


def test_a_known_law_comes_back() -> None:
    fit = fit_parametric(points(budgets(LAW)), resamples=0)
    assert fit.law.constants == pytest.approx(LAW.constants, rel=1e-5)
    assert fit.objective < 1e-12
    assert fit.intervals == {}
    assert fit.forecast(1e10, 1e12) == pytest.approx([LAW.loss(1e10, 1e12)] * 3, rel=1e-6)
    left = fit.left_out
    assert left is not None
    assert left["largest"]["error_percent"] == pytest.approx(0, abs=1e-3)
    assert (left["fitted"], left["forecast"]) == (45, 18)


def test_outliers_hardly_matter() -> None:
    made = points(budgets(LAW), noise=2e-3)
    made["loss"][5] *= 1.5
    fit = fit_parametric(made, resamples=0)
    assert fit.law.constants == pytest.approx(LAW.constants, rel=0.25)
    assert fit.law.size_exponent == pytest.approx(LAW.size_exponent, abs=0.02)
    assert int(np.argmax(np.abs(fit.residuals))) == 5
    assert fit.residuals[5] == pytest.approx(math.log(1.5), abs=0.02)


def test_intervals_hold_the_truth_and_the_law_needs_no_seed() -> None:
    made = points(budgets(LAW), noise=3e-3)
    fits = [fit_parametric(made, resamples=60, seed=seed) for seed in (1, 2)]
    assert fits[0].law == fits[1].law
    assert fits[0].intervals != fits[1].intervals
    for fit in fits:
        for name, value in {**LAW.constants, "size_exponent": LAW.size_exponent}.items():
            low, high = fit.intervals[name]
            assert low < value < high, name
        low, expected, high = fit.forecast(2e10, 4e11)
        assert low < LAW.loss(2e10, 4e11) < high
        assert (high - low) / expected < 0.05


def test_repeated_tokens_count_for_what_they_are_worth() -> None:
    rows = budgets(LAW)
    size, seen = np.array(rows).T
    unique = np.minimum(seen, 5e9)
    worth = np.array([effective(*pair, 15.4) for pair in zip(seen, unique, strict=True)])
    honest = points(list(zip(size.tolist(), worth.tolist(), strict=True)))
    known = dict(honest.known) | {"tokens": seen, "flop": 6 * size * seen}
    told = Points("made", honest.names, known, unique=unique)
    found = fit_parametric(told, resamples=0)
    assert found.law.constants == pytest.approx(LAW.constants, rel=1e-4)
    blind = fit_parametric(Points("made", honest.names, known), resamples=0)
    assert blind.law.beta != pytest.approx(LAW.beta, rel=0.02)


def test_too_little_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be fitted to 5 runs"):
        fit_parametric(points(budgets(LAW)[:5]))
    with pytest.raises(UserError, match="only 1 different sizes"):
        fit_parametric(points([(1e8, 1e9 * 2**place) for place in range(8)]))
    with pytest.raises(UserError, match="only 2 different numbers of tokens"):
        fit_parametric(points([(1e8 * 2**n, 1e9 * (1 + n % 2)) for n in range(8)]))
    with pytest.raises(UserError, match="0 budgets have a valley"):
        fit_isoflop(points(budgets(LAW, sizes=4)))
    with pytest.raises(UserError, match="fewer than two sizes"):
        fit_envelope(points([(1e8, 1e9), (1e8, 2e9), (2e8, 1e9), (2e8, 2e9)]))
    two = [(size, flop / (6 * size)) for flop in (1e20, 1e21) for size in (1e8, 2e8) * 3]
    with pytest.raises(UserError, match="0 budgets have a valley"):
        fit_isoflop(points(two, noise=1e-2))  # six runs each, but no parabola is theirs alone
    with pytest.raises(UserError, match="3 different numbers of training tokens"):
        fit_power(points([(1e8, 1e9), (1e8, 2e9), (1e8, 3e9)]), "tokens", floor=True)


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_losses_that_do_not_fall_are_refused(slope: float) -> None:
    made = points([(1e8 * 2**n, 1e9 * 2 ** (n % 5)) for n in range(12)])
    made["loss"][:] = 3.0 + slope * np.arange(12)
    with pytest.raises(UserError, match="these losses fall neither with size nor with tokens"):
        fit_parametric(made, resamples=0)
    for floor in (False, True):
        with pytest.raises(UserError, match="these losses do not fall with training FLOPs"):
            fit_power(made, "flop", floor=floor, resamples=0)


def test_what_the_runs_do_not_determine_is_told() -> None:
    no_floor = ParametricLaw(name="known", source="", E=1e-9, A=40, B=90, alpha=0.1, beta=0.12)
    fit = fit_parametric(points(budgets(no_floor), law=no_floor), resamples=0)
    assert any("no floor" in notice for notice in fit.notices)


@pytest.mark.parametrize(("alpha", "beta"), [(0.35, 0.36), (0.34, 0.28), (0.3, 0.4)])
def test_isoflop_parabolas_recover_known_exponents(alpha: float, beta: float) -> None:
    law = ParametricLaw(name="known", source="", E=1.8, A=480, B=2000, alpha=alpha, beta=beta)
    fit = fit_isoflop(points(budgets(law), law=law), resamples=0)
    assert fit.law.a == pytest.approx(law.size_exponent, rel=0.01)
    noisy = fit_isoflop(points(budgets(law), law=law, noise=1e-3), resamples=200)
    low, high = noisy.intervals["a"]
    assert low < law.size_exponent < high
    assert len(fit.best) == 7
    assert all(best.tokens == pytest.approx(best.flop / 6 / best.params) for best in fit.best)


def counted(made: Points, ratio: Floats | float) -> Points:
    """The same runs with FLOPs that were counted: attention and the output are more than 6·N·D."""
    return replace(made, known={**made.known, "flop": made.flop_6nd * ratio})


def test_what_was_counted_groups_runs_and_their_tokens_stay_theirs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = points(budgets(LAW), noise=1e-3)
    more = counted(made, 1.3)
    one, other = (fit_isoflop(each, resamples=0) for each in (made, more))
    assert other.law.constants == pytest.approx(one.law.constants)
    assert other.law.measured == one.law.measured
    best = [[(each.params, each.tokens) for each in fit.best] for fit in (one, other)]
    assert best[1] == pytest.approx(np.array(best[0]), rel=1e-9)
    fits = [fit_parametric(each, resamples=0) for each in (made, more)]
    assert fits[0].law == fits[1].law  # and where it was measured
    said = [[line for line in parametric_lines(fit) if "best for" in line] for fit in fits]
    assert said[0] == said[1]
    assert len(said[0]) == 2
    reached: list[float] = []
    plain = pictures._reach
    monkeypatch.setattr(pictures, "_reach", lambda x: (reached.append(x.max()), plain(x))[1])
    pictures.draw_parametric(fits[1], tmp_path / "fit.svg")
    assert reached == [pytest.approx(1e21, rel=1e-6)]


def test_the_best_tokens_are_those_of_runs_where_the_count_depends_on_the_size() -> None:
    rows, ratios = [], []
    for flop in np.geomspace(1e18, 1e21, 7):
        for size in LAW.optimum(float(flop) / 1.3).params * np.geomspace(0.25, 4, 9):
            ratios.append(1 + 0.3 * (size / 1e9) ** -0.2)
            rows.append((float(size), float(flop / (6 * size * ratios[-1]))))
    fit = fit_isoflop(counted(points(rows), np.array(ratios)), resamples=0)
    for flop, best in zip(np.geomspace(1e18, 1e21, 7), fit.best, strict=True):
        ratio = 1 + 0.3 * (best.params / 1e9) ** -0.2
        assert best.tokens == pytest.approx(flop / (6 * best.params * ratio), rel=1e-3)
        assert fit.law.optimum(best.flop).tokens == pytest.approx(best.tokens, rel=0.05)


def test_a_budget_without_a_valley_is_left_out_and_told() -> None:
    rows = budgets(LAW) + [(float(size), 1e23 / (6 * size)) for size in np.geomspace(1e8, 1e9, 6)]
    fit = fit_isoflop(points(rows), resamples=0)
    assert fit.law.a == pytest.approx(LAW.size_exponent, rel=0.01)
    assert fit.notices == (
        "the 6 runs at 1.00e+23 FLOPs are left out: their least loss is not between their sizes",
    )


def test_training_curves_recover_the_exponent() -> None:
    rows = [
        (float(size), float(size * ratio))
        for size in np.geomspace(1e7, 1e10, 13)
        for ratio in np.geomspace(0.5, 1000, 60)
    ]
    fit = fit_envelope(points(rows))
    assert fit.law.a == pytest.approx(LAW.size_exponent, rel=0.02)
    assert min(best.params for best in fit.best) > 1.1e7


def test_power_laws_with_and_without_a_floor() -> None:
    x = np.geomspace(1e6, 1e10, 12)
    made = Points("made", [""] * 12, {"params": x, "loss": 1.7 + (1e8 / x) ** 0.3})
    fit = fit_power(made, "params", floor=True, resamples=20)
    assert fit.law.constants == pytest.approx({"E": 1.7, "scale": 1e8, "alpha": 0.3}, rel=1e-4)
    assert fit.intervals["alpha"] == pytest.approx((0.3, 0.3), rel=1e-3)
    straight = fit_power(made, "params", floor=False, resamples=0)
    assert straight.law.E == 0
    assert straight.objective > 1e3 * fit.objective
    bare = Points("made", [""] * 12, {"params": x, "loss": (8.8e13 / x) ** 0.076})
    found = fit_power(bare, "params", floor=False, resamples=0).law
    assert (found.scale, found.alpha) == pytest.approx((8.8e13, 0.076), rel=1e-4)


@pytest.fixture(scope="module")
def chinchilla() -> ParametricFit:
    if DATA is None:
        pytest.skip("HEADWAY_DATA names no folder of real data")
    table = read_csv(Path(DATA, "scaling", "chinchilla_figure4_epoch.csv"))
    assert len(table) == 245
    return fit_parametric(table.without_highest(5), resamples=100)


def test_chinchillas_runs_give_the_constants_of_2024(chinchilla: ParametricFit) -> None:
    law = chinchilla.law
    assert pytest.approx(1.817, abs=5e-4) == law.E
    assert pytest.approx(478, abs=15) == law.A
    assert pytest.approx(2143, abs=150) == law.B
    assert law.alpha == pytest.approx(0.347, abs=0.002)
    assert law.beta == pytest.approx(0.367, abs=0.003)
    assert chinchilla.objective == pytest.approx(0.0010182740, rel=1e-6)  # the least of theirs
    low, high = chinchilla.intervals["size_exponent"]
    assert low < 0.51 < high
    assert high - low < 0.1
    assert chinchilla.left_out is not None
    assert chinchilla.left_out["largest"]["error_percent"] == pytest.approx(2.65, abs=0.05)


def test_chinchillas_budgets_give_its_second_approach(chinchilla: ParametricFit) -> None:
    fit = fit_isoflop(chinchilla.points, resamples=100)
    assert fit.law.a == pytest.approx(0.49, abs=0.02)
    low, high = fit.intervals["a"]
    assert low < 0.49 < high
