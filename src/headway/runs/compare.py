"""Runs side by side, from what their logs say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headway.base.errors import UserError
from headway.base.showing import SideBySide, Svg, Table, html_of
from headway.checkpoint.run import RunFolder
from headway.lens.charts import curves_svg
from headway.runs import report_parts as parts
from headway.runs.report_parts import RunReport
from headway.runs.summary import logged_report


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found; in a notebook a chart and a table, elsewhere the table."""

    runs: list[RunReport]
    parameters: list[int | None]

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return html_of(self.chart()) + html_of(self.table())

    def table(self) -> Table:
        """A row a run: exact match by words of the source, chrF, size, seconds of training."""
        rows = parts.score_rows(self.runs)
        exact = [[row.exact_match[place] for row in rows] for place in range(len(self._scored()))]
        return Table(
            [
                "exact match, %, by words",
                *(row.label for row in rows),
                "chrF",
                "parameters",
                "training, s",
            ],
            [
                [run.name, *exact[place], rows[-1].chrf[place], size, _seconds(run)]
                for place, (run, size) in enumerate(self._scored())
            ],
        )

    def chart(self) -> Svg:
        """Exact match by words of the source, as bars."""
        return parts.length_chart(self.runs, parts.score_rows(self.runs))

    def curves(self, x: Literal["step", "seconds"] = "step") -> SideBySide:
        """How they learned: the training loss and the exact match on the validation part."""
        found = {}
        for title, kind, y, unit in (
            ("Training loss", "train", "nll", "nats a token"),
            ("Validation", "valid", "exact_match", "exact match, %"),
        ):
            series = {run.name: parts.curve(run.metrics, kind, x, y) for run in self.runs}
            found[title] = curves_svg(series, x=x, y=unit, log_y=y == "nll")
        return SideBySide(found)

    def _scored(self) -> list[tuple[RunReport, int | None]]:
        both = zip(self.runs, self.parameters, strict=True)
        return [(run, size) for run, size in both if run.scores is not None]


def compare(*runs: str | Path) -> Comparison:
    """Scores by source length, size and time of finished runs, from their folders.

    Nothing is computed again. Raises UserError for what is no run, and for a run that has no
    scores yet.
    """
    if not runs:
        raise UserError("there is nothing to compare", todo="name the folders of runs")
    folders = [RunFolder(Path(run)) for run in runs]
    configs = [folder.config() for folder in folders]
    reports = [logged_report(folder) for folder in folders]
    for folder, report in zip(folders, reports, strict=True):
        if report.scores is None and any(each["kind"] == "test" for each in report.metrics):
            raise UserError("only translators are compared", where=str(folder.path))
        if report.scores is None:
            raise UserError(
                "this run has no scores yet",
                where=str(folder.path),
                todo="train it to the end, with a valid or a test part in its recipe",
            )
    return Comparison(parts.distinct(reports), [config.get("parameters") for config in configs])


def _seconds(run: RunReport) -> float | None:
    trained: list[dict[str, Any]] = [each for each in run.metrics if each["kind"] == "train"]
    return float(trained[-1]["seconds"]) if trained else None
