"""headway attention"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Device, Run


def attention(
    run: Run,
    source: Annotated[str, typer.Option(metavar="TEXT", help="The sentence to translate.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .png or .svg file.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Its translation; the model's own if not set."),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 0; the last but one if not set.")] = None,
    head: Annotated[int | None, typer.Option(help="From 0; the mean if not set.")] = None,
    device: Device = "auto",
) -> None:
    """Draw where each target token looks in the source.

    Example: headway attention runs/fr-en --source "3 mars 2021" --out attention.png
    """
    from headway.lens.plots import draw_alignment
    from headway.runs.open_model import open_translator

    alignment = open_translator(run, device=device).attention(
        source, target, layer=layer, head=head
    )
    draw_alignment(alignment, out)
    print(out)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(attention)
