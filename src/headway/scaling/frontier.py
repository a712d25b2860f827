"""How the best size grows with compute, by approaches 1 and 2 of Hoffmann 2022."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.base.errors import UserError
from headway.scaling.huber import between
from headway.scaling.laws import TRAINING, Allocation, Choice, Range
from headway.scaling.points import Floats, Points, different

_WIDE = math.log(1.15)  # from the least to the greatest FLOPs of what counts as one budget
_FEWEST = 5  # runs of a budget: two more than a parabola has constants
_SIZES = 3  # of a budget: fewer do not say how it bends
_GRID = 1500  # places along the envelope, as in the paper


@dataclass(frozen=True)
class FrontierFit:
    """The line through the best sizes, what it goes through, and how sure its exponent is.

    `groups` are the runs of each budget, or of each training curve; `draws` are lines (a, ln k).
    """

    law: Allocation
    best: tuple[Choice, ...]
    groups: tuple[Points, ...]
    draws: Floats
    notices: tuple[str, ...] = ()

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """What 95 % of the draws of the exponent lie in; nothing where none were drawn."""
        return {"a": between(self.draws[0])[0]} if self.draws.size else {}


@dataclass(frozen=True)
class _Valley:
    """The parabola of one budget: ln of its 6·N·D at the best size, ln of that as drawn often."""

    points: Points
    flop: float
    best: Choice
    draws: Floats


def fit_isoflop(points: Points, *, resamples: int = 500, seed: int = 1) -> FrontierFit:
    """Approach 2: a parabola over ln N for the runs of each budget, a line through their valleys.

    Budgets are where runs crowd within 15 % of FLOPs, as counted; the law's compute and tokens are
    those of C = 6·N·D. One whose valley is not among its sizes is left out and told; so are the
    runs between budgets. Resampling draws the residuals of each parabola anew.
    """
    rng = np.random.default_rng(seed)
    valleys, notices = [], []
    for budget in _budgets(np.log(points["flop"])):
        found = _valley(points.pick(budget), resamples, rng)
        if isinstance(found, _Valley):
            valleys.append(found)
        else:
            notices.append(found)
    if len(valleys) < 2:
        raise UserError(
            f"{len(valleys)} budgets have a valley among their sizes, a line needs two",
            where=points.origin,
            todo=f"train at least {_FEWEST} sizes around the best at each compute",
        )
    line = np.polyfit(
        [valley.flop for valley in valleys], [math.log(valley.best.params) for valley in valleys], 1
    )
    draws = np.polyfit(
        [valley.flop for valley in valleys], np.array([valley.draws for valley in valleys]), 1
    )
    return FrontierFit(
        law=_law("isoflop", points, line),
        best=tuple(valley.best for valley in valleys),
        groups=tuple(valley.points for valley in valleys),
        draws=draws,
        notices=tuple(notices),
    )


def _budgets(flop: Floats) -> list[NDArray[np.intp]]:
    """The runs of each budget, found by taking the densest stretch of ln FLOPs again and again."""
    left, found = np.argsort(flop, kind="stable"), []
    while len(left):
        ends = np.searchsorted(flop[left], flop[left] + _WIDE, side="right")
        counts = ends - np.arange(len(left))
        start = int(counts.argmax())
        if counts[start] < _FEWEST:
            break
        found.append(left[start : ends[start]])
        left = np.concatenate((left[:start], left[ends[start] :]))
    return sorted(found, key=lambda budget: float(flop[budget[0]]))


def _valley(points: Points, resamples: int, rng: np.random.Generator) -> _Valley | str:
    """The valley of a budget, or why it has none."""
    flop = float(np.log(points["flop"]).mean())
    logs = np.log(points["params"])
    said = f"the {len(points)} runs at {math.exp(flop):.2e} FLOPs are left out"
    if different(points["params"]) < _SIZES:
        return f"{said}: they are of fewer than {_SIZES} sizes"
    middle = float(logs.mean())
    matrix = np.vander(logs - middle, 3)
    coefficients = np.linalg.lstsq(matrix, points["loss"], rcond=None)[0]
    bend, slope, level = coefficients.tolist()
    lowest = middle - slope / (2 * bend)
    if bend <= 0 or not logs.min() < lowest < logs.max():
        return f"{said}: their least loss is not between their sizes"
    fitted = matrix @ coefficients
    spare = (points["loss"] - fitted) * math.sqrt(len(logs) / (len(logs) - 3))
    losses = fitted + spare[rng.integers(0, len(logs), (resamples, len(logs)))]
    drawn = np.linalg.lstsq(matrix, losses.T, rcond=None)[0]
    params, loss = math.exp(lowest), level - slope**2 / (4 * bend)
    draws = middle - drawn[1] / (2 * drawn[0])
    # what was counted for each 6·N·D, which depends on the size: so the tokens are the runs' own
    counted = np.linalg.lstsq(matrix, np.log(points["flop"] / points.flop_6nd), rcond=None)[0]
    flop -= float(np.polyval(counted, lowest - middle))
    best = Choice(params, math.exp(flop) / (TRAINING * params), loss)
    return _Valley(points, flop, best, draws)


def fit_envelope(points: Points) -> FrontierFit:
    """Approach 1: at each compute the size whose training curve is lowest, a line through these.

    Rows of one size are its curve. A place counts where the next smaller and the next larger size
    were trained so far too: elsewhere one that is not there might have been lower.
    """
    curves = _curves(points)
    ends = np.array([(curve[0][0], curve[0][-1]) for curve in curves.values()])
    places = np.linspace(ends[:, 0].min(), ends[:, 1].max(), _GRID)
    heights = np.array(
        [np.interp(places, *curve, left=np.inf, right=np.inf) for curve in curves.values()]
    )
    sizes, which = np.array(list(curves)), heights.argmin(axis=0)
    lowest, each = sizes[which], np.arange(_GRID)
    beside = [heights[np.clip(which + step, 0, len(sizes) - 1), each] for step in (-1, 1)]
    inner = (which > 0) & (which < len(sizes) - 1) & np.isfinite(beside).all(axis=0)
    if len(np.unique(lowest[inner])) < 2:
        raise UserError(
            "fewer than two sizes are ever the best while a smaller and a larger one are there too",
            where=points.origin,
            todo="add training curves of further sizes, or longer ones",
        )
    line = np.polyfit(places[inner], np.log(lowest[inner]), 1)
    best = []
    for size in np.unique(lowest[inner]):  # where each size is the best, in the middle
        place = float(np.median(places[inner & (lowest == size)]))
        loss = float(np.exp(np.interp(place, *curves[size])))
        best.append(Choice(float(size), math.exp(place) / (TRAINING * size), loss))
    groups = [points.pick(np.flatnonzero(points["params"] == size)) for size in sizes]
    law = _law("envelope", points, line)
    return FrontierFit(law, tuple(best), tuple(groups), np.empty((2, 0)))


def _curves(points: Points) -> dict[float, tuple[Floats, Floats]]:
    """Of each size ln(6·N·D) and the ln of the least loss up to there."""
    found, flop = {}, points.flop_6nd
    for size in np.unique(points["params"]):
        rows = np.flatnonzero(points["params"] == size)
        rows = rows[np.argsort(flop[rows], kind="stable")]
        fallen = np.minimum.accumulate(points["loss"][rows])
        found[float(size)] = (np.log(flop[rows]), np.log(fallen))
    return found


def _law(name: str, points: Points, line: Floats) -> Allocation:
    params, flop = points["params"], points.flop_6nd
    return Allocation(
        name=name,
        source=f"fitted to {len(points)} rows of {points.origin}",
        measured=Range(
            params=(float(params.min()), float(params.max())),
            flop=(float(flop.min()), float(flop.max())),
        ),
        k=math.exp(line[1]),
        a=float(line[0]),
    )
