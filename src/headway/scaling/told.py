"""What is told of a fit: a few lines for people, a table for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.scaling.frontier import FrontierFit
from headway.scaling.huber import INSIDE
from headway.scaling.laws import Law
from headway.scaling.parametric import ParametricFit, worth
from headway.scaling.points import QUANTITIES, Floats
from headway.scaling.powers import PowerFit
from headway.scaling.units import short

_WORST = 3  # runs furthest from the law


def parametric_record(fit: ParametricFit) -> dict[str, Any]:
    """Constants, intervals, residuals, and how well the smaller runs forecast the largest."""
    law = fit.law
    known = (fit.points["params"], worth(fit.points), fit.points["flop"], fit.points["loss"])
    rows = zip(fit.points.names, *(column.tolist() for column in known), strict=True)
    each = [
        {"run": run, "params": params, "tokens": tokens, "flop": flop, "loss": loss}
        | {"law": law.loss(params, tokens)}
        for run, params, tokens, flop, loss in rows
    ]
    return {
        "law": "chinchilla",
        **law.constants,
        "size_exponent": law.size_exponent,
        "intervals": fit.intervals,
        "interval_percent": INSIDE,
        "resamples": len(fit.draws),
        "objective": fit.objective,
        "residuals": _residuals(fit.residuals),
        "left_out": fit.left_out,
        **_common(law, len(fit.points), fit.notices),
        "each": each,
    }


def frontier_record(fit: FrontierFit) -> dict[str, Any]:
    """The exponents, and the best size of each budget."""
    best = [
        {"flop": each.flop, "params": each.params, "tokens": each.tokens, "loss": each.loss}
        for each in fit.best
    ]
    return {
        "law": fit.law.name,
        **fit.law.constants,
        "b": 1 - fit.law.a,
        "intervals": fit.intervals,
        "interval_percent": INSIDE,
        "best": best,
        **_common(fit.law, sum(map(len, fit.groups)), fit.notices),
    }


def power_record(fits: Sequence[PowerFit]) -> dict[str, Any]:
    """The law without a floor and with one."""
    return {
        "law": "power",
        "x": fits[0].law.x,
        "interval_percent": INSIDE,
        "fits": [
            {
                **fit.law.constants,
                "intervals": fit.intervals,
                "objective": fit.objective,
                "residuals": _residuals(fit.residuals),
            }
            for fit in fits
        ],
        **_common(fits[0].law, len(fits[0].points), ()),
    }


def _common(law: Law, runs: int, notices: tuple[str, ...]) -> dict[str, Any]:
    measured = {
        name: bounds
        for name in ("params", "tokens", "flop")
        if (bounds := getattr(law.measured, name)) is not None
    }
    said = {"formula": law.formula, "source": law.source, "notices": list(notices)}
    return {"runs": runs, "measured": measured, **said}


def _residuals(residuals: Floats) -> dict[str, float]:
    return {
        "rms_percent": 100 * math.sqrt(float(np.mean(residuals**2))),
        "median_percent": 100 * float(np.median(np.abs(residuals))),
        "largest_percent": 100 * float(np.abs(residuals).max()),
    }


def parametric_lines(fit: ParametricFit) -> list[str]:
    """The fit for people."""
    law, intervals = fit.law, fit.intervals
    found = [f"{law.formula}, {law.source}"]
    for name, value in {**law.constants, "size_exponent": law.size_exponent}.items():
        said = "beta / (alpha + beta)" if name == "size_exponent" else name
        found.append(f"  {said:23}{value:<12.5g}{_interval(intervals.get(name))}")
    off = _residuals(fit.residuals)
    found.append(
        f"runs are {off['median_percent']:.2f} % from the law (median), "
        f"{off['largest_percent']:.1f} % at the most:"
    )
    for place in np.argsort(-np.abs(fit.residuals))[:_WORST]:
        found.append(f"  {100 * fit.residuals[place]:+.1f} %  {fit.points.names[place]}")
    left = fit.left_out
    if left is not None:
        found.append(
            f"the {left['fitted']} runs up to {left['fitted_up_to_flop']:.2e} FLOPs forecast the "
            f"{left['forecast']} above with an error of {left['mean_error_percent']:.1f} %, "
            f"the largest ({left['largest']['flop']:.2e}) with "
            f"{left['largest']['error_percent']:+.1f} %"
        )
    most = float(fit.points.flop_6nd.max())
    for factor in (1, 10):
        best = law.optimum(factor * most)
        least, _, greatest = fit.forecast(best.params, best.tokens)
        found.append(
            f"best for {factor * most:.2e} FLOPs: {short(best.params)} parameters, "
            f"{short(best.tokens)} tokens ({best.tokens_per_param:.1f} a parameter), "
            f"loss {best.loss:.3f} ({least:.3f} to {greatest:.3f})"
        )
    return found + [f"note: {notice}" for notice in fit.notices]


def frontier_lines(fit: FrontierFit) -> list[str]:
    """The fit for people."""
    found = [f"{fit.law.formula}, {fit.law.source}"]
    found.append(f"  {'a':23}{fit.law.a:<12.4f}{_interval(fit.intervals.get('a'))}")
    found.append(f"  {'k':23}{fit.law.k:<12.5g}")
    for each in fit.best:
        found.append(
            f"  {each.flop:.2e} FLOPs: {short(each.params)} parameters, {short(each.tokens)} "
            f"tokens, loss {each.loss:.3f}"
        )
    return found + [f"note: {notice}" for notice in fit.notices]


def power_lines(fits: Sequence[PowerFit]) -> list[str]:
    """The fits for people."""
    found = [f"{fits[0].law.formula}, x = {QUANTITIES[fits[0].law.x]}, {fits[0].law.source}"]
    for fit in fits:
        found.append("with a floor" if fit.law.E else "without a floor")
        for name, value in fit.law.constants.items():
            if value:
                found.append(f"  {name:23}{value:<12.5g}{_interval(fit.intervals.get(name))}")
        off = _residuals(fit.residuals)
        found.append(f"  runs are {off['median_percent']:.2f} % from it (median)")
    return found


def _interval(ends: tuple[float, float] | None) -> str:
    return f"{ends[0]:.5g} to {ends[1]:.5g}" if ends else ""
