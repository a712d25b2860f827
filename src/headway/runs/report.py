"""The report of one run or several: one page that needs nothing else, and a table for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.files import write_atomic
from headway.runs import report_parts as parts
from headway.runs.report_parts import RunReport

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["RunReport", "scores_table", "write_report"]


def write_report(path: Path, title: str, runs: Sequence[RunReport], *, about: str = "") -> None:
    """Write the page to `path`: scores by length, curves, samples, alignments, facts.

    It has no script and asks for nothing from elsewhere; every text in it is escaped. Sections
    for which the runs have nothing are left out. `about` says in a sentence or two what was done.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headway.runs"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    runs = parts.distinct(runs)
    rows = parts.score_rows(runs)
    samples, n_samples = parts.samples(runs)
    pictures, left_out = parts.pictures(runs)
    page = environment.get_template("report.html.j2").render(
        title=title,
        about=about,
        runs=runs,
        finding=parts.finding(runs, rows),
        rows=rows,
        scored=_scored(runs),
        length_chart=Markup(parts.length_chart(runs, rows)) if rows else "",
        charts=[Markup(svg) for svg in parts.charts(runs)],
        samples=samples,
        n_samples=n_samples,
        passages=[(run.name, place, run.passages) for place, run in enumerate(runs)],
        pictures=[(name, caption, Markup(svg)) for name, caption, svg in pictures],
        left_out=left_out,
        plans=[(run.name, run.plan) for run in runs if run.plan],
        facts=parts.fact_rows(runs),
    )
    write_atomic(path, page)


def _scored(runs: Sequence[RunReport]) -> list[dict[str, Any]]:
    """The runs that have scores, with their place among all runs (their colour)."""
    return [
        {"name": run.name, "place": place, "scores": run.scores}
        for place, run in enumerate(runs)
        if run.scores is not None
    ]


def scores_table(runs: Sequence[RunReport]) -> Table:
    """Exact match and chrF of the runs by source length, for a terminal; the best are bold."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Exact match and chrF by words of the source, in percent")
    table.add_column("words")
    table.add_column("n", justify="right")
    for name, _ in parts.scored(parts.distinct(runs)):
        table.add_column(Text(f"{name}\nexact   chrF"), justify="right")
    rows = parts.score_rows(runs)
    for place, row in enumerate(rows):
        cells = [Text(row.label), Text(row.n)]
        for exact, chrf in zip(row.exact_match, row.chrf, strict=True):
            cells.append(Text())
            for value, best in ((exact, row.best("exact_match")), (chrf, row.best("chrf"))):
                shown = "–" if value is None else f"{value:.1f}"
                bold = value is not None and best is not None and round(value, 1) == best
                cells[-1].append(f"{shown:>7}", "bold" if bold else "")
        table.add_row(*cells, end_section=place == len(rows) - 2)
    return table
