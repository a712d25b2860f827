"""What a sweep has found so far: the ends of its runs, the law through them, what it forecasts."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np

from headway.base.errors import UserError
from headway.base.files import read_json
from headway.base.records import Records
from headway.scaling.grid import GridRun, grid_run
from headway.scaling.parametric import PASSES, ParametricFit, fit_parametric
from headway.scaling.points import Points, read_runs
from headway.scaling.repeated import effective
from headway.scaling.shapes import resized
from headway.scaling.sweep import HELD_OUT, Sweep, read_forecast
from headway.scaling.told import parametric_record

_LARGER = 4.0  # times the greatest size fitted: the held-out run's is no larger
_SIZES = 33


def end_of(sweep: Sweep, run: dict[str, Any]) -> dict[str, Any]:
    """A finished run with its loss, the tokens it saw, how often its text, and what it took."""
    folder = sweep.job(run["name"]).run
    point = read_runs([folder])
    records = Records(folder / "metrics.jsonl").read()
    last = [each for each in records if each["kind"] == "train"][-1]
    tokens = float(point["tokens"][0])
    text = text_tokens(sweep, run["name"])
    return {
        **run,
        "params": int(point["params"][0]),
        "tokens": tokens,
        "passes": tokens / text,
        "unique": min(tokens, text),
        "flops": run["flops"] / run["tokens"] * tokens,
        "loss": float(point["loss"][0]),
        "seconds": float(last["seconds"]),
        "tokens_per_s": tokens / max(1e-9, float(last["seconds"])),
    }


def text_tokens(sweep: Sweep, name: str) -> float:
    """How many different tokens there are to train on, by what a run found."""
    sources = read_json(sweep.job(name).run / "data.json")
    return float(sum(source["tokens"] for source in sources.values()))


def sweep_points(sweep: Sweep) -> tuple[Points, list[dict[str, Any]]]:
    """The finished runs of the grid, to fit a law to, and as rows; FLOPs are those counted.

    Raises UserError if none has finished.
    """
    rows = [end_of(sweep, run) for run in sweep.finished()]
    if not rows:
        todo = "let it go on: headway scaling sweep --out DIR"
        raise UserError("no run of this sweep has finished", where=str(sweep.folder), todo=todo)
    points = read_runs([sweep.job(row["name"]).run for row in rows])
    known = {**points.known, "flop": np.array([row["flops"] for row in rows])}
    names = [row["name"] for row in rows]
    return replace(points, origin=str(sweep.folder), names=names, known=known), rows


def forecast(sweep: Sweep, *, resamples: int = 500) -> tuple[GridRun, dict[str, Any]]:
    """The held-out run and what its loss will be, by the law of all that was made before it.

    Its size is the one of the least loss for its compute, among those up to four times as large as
    the largest. Raises UserError where runs are too few for a law.
    """
    points, rows = sweep_points(sweep)
    fit = fit_parametric(points, resamples=resamples)
    recipe, ids = sweep.recipe, sweep.table["n_tokens"]
    budget = float(sweep.held_out or 1.0) * max(run["budget"] for run in sweep.runs)
    text = text_tokens(sweep, rows[0]["name"])
    least, most = points["params"].min(), points["params"].max() * _LARGER
    tried = {}
    for params in np.geomspace(least, most, _SIZES).tolist():
        try:
            model = resized(recipe.model, ids, params)
        except UserError:
            continue  # too small to be built
        tried[model] = grid_run(recipe, ids, model, budget, HELD_OUT)

    def loss(run: GridRun) -> float:
        return fit.law.loss(run.params, _worth(run.tokens, text))

    run = min(tried.values(), key=loss)
    low, expected, high = fit.forecast(run.params, _worth(run.tokens, text))
    return run, {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "passes": run.tokens / text,
        "worth": _worth(run.tokens, text),
        "expected": expected,
        "low": low,
        "high": high,
        "fit": parametric_record(fit),
    }


def _worth(tokens: float, text: float) -> float:
    """In different tokens, where there are only so many (Muennighoff 2023)."""
    return effective(tokens, min(tokens, text), PASSES)


def compared(sweep: Sweep) -> dict[str, Any] | None:
    """The forecast beside the run, once it is made; the forecast alone before; None without."""
    made = read_forecast(sweep)
    if made is None or not sweep.job(HELD_OUT).finished:
        return made
    end = end_of(sweep, made)
    return {
        **made,
        "measured": end,
        "error_percent": 100 * (made["expected"] / end["loss"] - 1),
        "inside": made["low"] <= end["loss"] <= made["high"],
    }


def law_of(points: Points) -> tuple[ParametricFit | None, str]:
    """The law through the runs; None while there cannot be one, and why."""
    try:
        return fit_parametric(points), ""
    except UserError as error:
        return None, str(error)


def run_line(row: dict[str, Any]) -> str:
    """A row of the table that grows as runs end."""
    return (
        f"{row['name']:<22} {row['params']:>12,} {row['n_layers']:>3} × {row['d_model']:<5} "
        f"{row['tokens']:>13,.0f} {row['passes']:>7.2f} {row['flops']:>10.3g} {row['loss']:>8.4f} "
        f"{row['seconds']:>8.1f}"
    )


RUN_HEAD = (
    f"{'run':<22} {'parameters':>12} {'L × D':>11} {'tokens':>13} {'passes':>7} {'FLOPs':>10} "
    f"{'loss':>8} {'seconds':>8}"
)


def told(found: dict[str, Any]) -> str:
    """The forecast in a sentence, and what came of it."""
    said = (
        f"the held-out run, {found['params']:,} parameters and {found['tokens']:,} tokens "
        f"({found['passes']:.2f} passes), is forecast to end at {found['expected']:.4f} "
        f"({found['low']:.4f} to {found['high']:.4f})"
    )
    if "measured" not in found:
        return said
    inside = "inside" if found["inside"] else "outside"
    return (
        f"{said}; it ended at {found['measured']['loss']:.4f}: the forecast is "
        f"{found['error_percent']:+.2f} % off, and the run {inside} its interval"
    )
