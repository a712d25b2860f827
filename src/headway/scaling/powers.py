"""A loss that falls with one quantity: a power law, with a floor and without."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from headway.base.errors import UserError
from headway.scaling.huber import FLATTEST, LogSumFit, between
from headway.scaling.laws import PowerLaw, Range, power
from headway.scaling.points import QUANTITIES, Floats, Points

_FEWEST = 4  # runs: one more than there are constants
_EXPONENTS, _FLOORS = (0.02, 0.05, 0.1, 0.3, 0.6, 1.0), (0.2, 0.5, 0.8, 0.95)


@dataclass(frozen=True)
class PowerFit:
    """A fitted power law; residuals are ln(loss) − ln(law)."""

    law: PowerLaw
    points: Points
    residuals: Floats
    objective: float
    intervals: dict[str, tuple[float, float]]


def fit_power(
    points: Points, x: str, *, floor: bool, resamples: int = 500, seed: int = 1
) -> PowerFit:
    """Fit L = E + (scale / x)^alpha, or without E.

    `x` is what the loss falls with: params, tokens or flop. The intervals hold 95 % of fits to
    runs drawn anew. Raises UserError for too few runs.
    """
    loss, values = points["loss"], points[x]
    if len(points) < _FEWEST or len(np.unique(values)) < _FEWEST:
        raise UserError(
            f"a power law cannot be fitted to {len(np.unique(values))} different numbers of "
            f"{QUANTITIES[x]}",
            where=points.origin,
            todo=f"at least {_FEWEST} runs are needed",
        )
    mean = float(np.log(values).mean())
    falls = -(np.log(values) - mean)
    one, none = np.ones_like(falls), np.zeros_like(falls)
    terms = [np.stack((one, none, falls), axis=1), np.stack((none, one, none), axis=1)]
    if not floor:
        terms = [np.stack((one, falls), axis=1)]
    sums = LogSumFit(np.array(terms), loss, exponents=1)
    least, middle = float(loss.min()), float(loss.mean())
    shares = [floored * least for floored in _FLOORS] if floor else [0.0]
    starts = []
    for bottom, exponent in product(shares, _EXPONENTS):
        floors = [math.log(bottom)] if floor else []
        starts.append(np.array([math.log(middle - bottom), *floors, exponent]))
    objective, best = sums.best(starts)

    def constants(solution: Floats) -> list[float]:
        level, *bottoms, alpha = solution.tolist()
        scale = math.exp(mean) * power(math.exp(level), 1 / alpha)
        return [math.exp(bottoms[0]) if floor else 0.0, scale, alpha]

    E, scale, alpha = constants(best)
    _refuse_flat(alpha, scale, points, x)
    law = PowerLaw(
        name=f"power of {x}",
        source=f"fitted to {len(points)} runs of {points.origin}",
        measured=Range(**{x: (float(values.min()), float(values.max()))}),
        x=x,
        E=E,
        scale=scale,
        alpha=alpha,
    )
    drawn = [constants(solution) for solution in sums.drawn(best, resamples, seed)]
    intervals = dict(zip(law.letters, between(np.array(drawn)), strict=True)) if drawn else {}
    return PowerFit(law, points, sums.residuals(best), objective, intervals)


def _refuse_flat(alpha: float, scale: float, points: Points, x: str) -> None:
    if alpha < FLATTEST or not 0 < scale < math.inf:
        raise UserError(
            f"these losses do not fall with {QUANTITIES[x]}",
            where=points.origin,
            todo="name another quantity by --x, or leave out runs by --drop-highest",
        )
