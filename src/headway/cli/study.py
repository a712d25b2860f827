"""headway study"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import JsonFile, write_json

if TYPE_CHECKING:
    from headway.studies.run import Report


def study(
    name: Annotated[
        str | None, typer.Argument(help="Which one; all are listed if not set.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute or less, one seed: to see it work.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How often each setting is measured; 3 (1 with --quick)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the results go: runs/studies/NAME if not set."),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Measure a claim of the course: a number, a picture, a verdict.

    In full a study takes up to 15 minutes on 2 cores. One that was stopped goes on where it was.

    Example: headway study bottleneck --quick
    """
    from headway.studies.listing import all_studies, find_study

    if name is None:
        for each in all_studies():
            print(f"{each.name:14} {each.claim}")
        return
    chosen = find_study(name)
    print(f"{chosen.name}: {chosen.claim}\n", flush=True)
    from headway.studies.run import run_study

    report = run_study(chosen, quick=quick, seeds=seeds, out=out)
    write_json(json, report.table)
    _tell(report)


def _tell(report: Report) -> None:
    """The table, the number, the finding, and where the picture is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from headway.studies.base import shown

    conclusion = report.conclusion
    columns = list(dict.fromkeys(key for row in conclusion.rows.values() for key in row))
    table = Table("setting")
    for column in columns:
        table.add_column(Text(column), justify="right")
    for name, row in conclusion.rows.items():
        cells = [shown(row[column]) if column in row else "–" for column in columns]
        table.add_row(Text(name), *map(Text, cells))
    Console().print(table)
    print(f"\n{conclusion.number.text()}\n\n{conclusion.paragraph()}\n")
    verdict = "holds" if conclusion.holds else "does not hold in all points"
    print(f"The claim {verdict} in these numbers.\n{report.picture}\n{report.result}")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(study)
