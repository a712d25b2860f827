"""headway demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Device, JsonFile, write_json


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the runs go.")] = Path(
        "runs/demo"
    ),
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Train three French-to-English models in a few minutes and compare them.

    A recurrent network without attention, one with it, and a Transformer.

    Example: headway demo --json demo.json
    """
    from headway.runs.demo import run_demo

    write_json(json, run_demo(out, device=device))


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(demo)
