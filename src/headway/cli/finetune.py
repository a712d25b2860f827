"""headway finetune"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import Device
from headway.cli.train import Settings, train_recipe


def finetune(
    recipe: Annotated[
        str, typer.Argument(help="A shipped recipe or a TOML file; headway recipes lists them.")
    ],
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A run, a Hugging Face folder or a .gguf file; else model.from.",
        ),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder; runs/RECIPE if not set.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a recipe beginning from a model that exists: its settings, tokeniser and weights.

    What the recipe says of the model wins over the model's own settings: its dropout, for instance.

    Example: headway finetune glue/mrpc --from minilm/ --set train.epochs=4 --out runs/mrpc
    """
    from headway.settings.model import NO_ORIGIN
    from headway.settings.recipe import origin_of, parse_overrides, recipe_table

    overrides = parse_overrides(settings or [])
    if origin is not None:
        overrides["model.from"] = origin
    elif not origin_of(recipe_table(recipe, overrides)[1]):
        raise UserError(NO_ORIGIN, where="model.from")
    train_recipe(recipe, overrides, out=out, resume=False, device=device)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(finetune)
