"""The report of a sweep: a table, the law, the forecast and what came of it; page and JSON."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.base.errors import UserError
from headway.base.files import to_json, write_atomic
from headway.base.runtime import processor
from headway.lens.charts import curves_svg
from headway.scaling.frontier import FrontierFit, fit_isoflop
from headway.scaling.pages import write_template
from headway.scaling.parametric import ParametricFit, worth
from headway.scaling.pictures import draw_frontier, draw_parametric
from headway.scaling.points import Points
from headway.scaling.sweep import HELD_OUT, Sweep
from headway.scaling.sweep_ends import compared, law_of, sweep_points, told
from headway.scaling.told import frontier_record, parametric_lines, parametric_record
from headway.scaling.units import duration, short

REPORT, PAGE = "report.json", "report.html"


def write_sweep_report(sweep: Sweep) -> list[str]:
    """Write report.json and report.html into the sweep's folder; what is to be told of it.

    Raises UserError if no run has finished yet.
    """
    points, rows = sweep_points(sweep)
    (fit, reason), forecast = law_of(points), compared(sweep)
    frontier = _frontier(points)
    seconds = sum(row["seconds"] for row in rows)
    record = {
        "asked": sweep.table["asked"],
        "machine": processor(),
        "runs": rows,
        "of": len(sweep.runs),
        "training_seconds": seconds + (_held_out(forecast).get("seconds", 0.0)),
        "fit": None if fit is None else parametric_record(fit),
        "isoflop": None if frontier is None else frontier_record(frontier),
        "held_out": forecast,
    }
    write_atomic(sweep.folder / REPORT, to_json(record))
    lines = parametric_lines(fit) if fit is not None else [f"no law yet: {reason}"]
    said = f"{len(rows)} of {len(sweep.runs)} runs, {duration(seconds / 3600)} of training"
    if forecast is not None:
        lines.append(told(forecast))
    _write_page(sweep, points, rows, fit, frontier, forecast, said, lines)
    return [said, *lines]


def _held_out(forecast: dict[str, Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = (forecast or {}).get("measured", {})
    return found


def _frontier(points: Points) -> FrontierFit | None:
    """The parabolas, where there are budgets of enough sizes."""
    try:
        return fit_isoflop(points)
    except UserError:
        return None


def _write_page(
    sweep: Sweep,
    points: Points,
    rows: list[dict[str, Any]],
    fit: ParametricFit | None,
    frontier: FrontierFit | None,
    forecast: dict[str, Any] | None,
    said: str,
    lines: list[str],
) -> None:
    from markupsafe import Markup

    pictures = []
    if fit is not None:
        pictures.append(_picture(lambda path: draw_parametric(fit, path)))
    if frontier is not None:
        pictures.append(_picture(lambda path: draw_frontier(frontier, path)))
    every = [*rows, {**_held_out(forecast), "name": HELD_OUT}] if _held_out(forecast) else rows
    write_template(
        "sweep.html.j2",
        sweep.folder / PAGE,
        title=sweep.folder.resolve().name,
        said=said,
        description=sweep.recipe.description,
        chart=Markup(_losses(points, rows, fit, forecast)),
        pictures=pictures,
        head=_HEAD,
        rows=[_cells(row) for row in every],
        lines=lines,
    )


def _losses(
    points: Points,
    rows: list[dict[str, Any]],
    fit: ParametricFit | None,
    forecast: dict[str, Any] | None,
) -> str:
    """Loss against compute: the best of each budget, the law there, the held-out run."""
    best: dict[float, tuple[float, float]] = {}
    for row in rows:
        point = row["flops"], row["loss"]
        best[row["budget"]] = min(best.get(row["budget"], point), point, key=lambda each: each[1])
    series = {"best of a budget": list(best.values())}
    if fit is not None:
        known = zip(points["params"].tolist(), worth(points).tolist(), strict=True)
        law = dict(zip(points.names, (fit.law.loss(*place) for place in known), strict=True))
        named = {row["budget"]: row for row in rows if row["loss"] == best[row["budget"]][1]}
        series["the law there"] = [(row["flops"], law[row["name"]]) for row in named.values()]
    if forecast is not None:
        at = float(forecast["flops"])
        ends = [forecast["low"], forecast["expected"], forecast["high"]]
        series["forecast"] = [(at, float(loss)) for loss in ends]
        if "measured" in forecast:
            series["held-out run"] = [(at, forecast["measured"]["loss"])]
    return curves_svg(series, x="training FLOPs", y="Loss, nats a token", log_x=True)


def _picture(draw: Callable[[Path], None]) -> str:
    """A picture as an address that holds it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        draw(path)
        return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


_HEAD = (
    *("run", "parameters", "layers × width", "tokens", "passes", "FLOPs", "loss", "time"),
    "FLOP/s",
)


def _cells(row: dict[str, Any]) -> list[str]:
    rate = row["flops"] / max(1e-9, row["seconds"])
    return [
        str(row["name"]),
        f"{row['params']:,}",
        f"{row['n_layers']} × {row['d_model']}",
        short(row["tokens"]),
        f"{row['passes']:.2f}",
        f"{row['flops']:.3g}",
        f"{row['loss']:.4f}",
        duration(row["seconds"] / 3600),
        short(rate),
    ]
