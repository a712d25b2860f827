"""One fit of any kind, with what is told of it and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headway.scaling import told
from headway.scaling.frontier import fit_envelope, fit_isoflop
from headway.scaling.parametric import fit_parametric
from headway.scaling.pictures import draw_frontier, draw_parametric, draw_powers
from headway.scaling.points import Points
from headway.scaling.powers import fit_power

Kind = Literal["chinchilla", "isoflop", "envelope", "power"]


@dataclass(frozen=True)
class Fitted:
    """Lines for people, a record for JSON, and a function that draws the fit."""

    lines: list[str]
    record: dict[str, Any]
    draw: Callable[[Path], None]


def fit(points: Points, kind: Kind, *, x: str, resamples: int, seed: int) -> Fitted:
    """Fit a law of that kind; `x` is what a power law falls with."""
    if kind == "chinchilla":
        found = fit_parametric(points, resamples=resamples, seed=seed)
        return Fitted(
            told.parametric_lines(found),
            told.parametric_record(found),
            lambda path: draw_parametric(found, path),
        )
    if kind == "power":
        powers = [
            fit_power(points, x, floor=floor, resamples=resamples, seed=seed)
            for floor in (False, True)
        ]
        return Fitted(
            told.power_lines(powers),
            told.power_record(powers),
            lambda path: draw_powers(powers, path),
        )
    frontier = (
        fit_isoflop(points, resamples=resamples, seed=seed)
        if kind == "isoflop"
        else fit_envelope(points)
    )
    return Fitted(
        told.frontier_lines(frontier),
        told.frontier_record(frontier),
        lambda path: draw_frontier(frontier, path),
    )
