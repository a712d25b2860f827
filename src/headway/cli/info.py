"""headway info"""

from __future__ import annotations

import typer

from headway.cli.options import Run


def info(run: Run) -> None:
    """Say what a run is: model, data, progress, scores.

    Example: headway info runs/fr-en
    """
    from headway.runs.info import describe

    for name, value in describe(run).items():
        print(f"{name:14} {value}")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(info)
