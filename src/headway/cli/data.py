"""headway data"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headway.base.files import refuse_same
from headway.cli.options import JsonFile, write_json

data = typer.Typer(help="Look at the data of a recipe.", no_args_is_help=True)


class PartChoice(StrEnum):
    """The parts of a recipe's data."""

    train = "train"
    valid = "valid"
    test = "test"


@data.command()
def preview(
    recipe: Annotated[
        str, typer.Argument(help="A shipped recipe or a TOML file; headway recipes lists them.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be given again."),
    ] = None,
    part: Annotated[PartChoice, typer.Option(help="Which part to look at.")] = PartChoice.train,
    lines: Annotated[int, typer.Option(min=1, help="How many of the first rows to show.")] = 5,
    json: JsonFile = None,
) -> None:
    """Show what a training would make of the data: what is kept and left out, and the first rows.

    No model is trained, but the tokeniser is. Of pairs of sentences also lengths and unknown words;
    of other data what of each row is only read, and what the model learns to say.
    Example: headway data preview pairs --set data.train.source=a.fr --set data.train.target=a.en
    """
    from headway.settings.recipe import parse_overrides

    refuse_same(json, Path(recipe))
    overrides = parse_overrides(settings or [])
    from headway.runs.preview import preview, show

    found = preview(recipe, overrides, part.value, n=lines, out=json)
    write_json(json, found.to_table())
    show(found)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.add_typer(data, name="data")
