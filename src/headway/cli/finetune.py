"""headway finetune"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Device
from headway.cli.train import Settings, train_recipe


def finetune(
    recipe: Annotated[
        str, typer.Argument(help="A shipped recipe or a TOML file; headway recipes lists them.")
    ],
    origin: Annotated[
        str,
        typer.Option(
            "--from", metavar="PATH", help="A run, a Hugging Face folder or a .gguf file."
        ),
    ],
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
    from headway.settings.recipe import parse_overrides

    overrides = {**parse_overrides(settings or []), "model.from": origin}
    train_recipe(recipe, overrides, out=out, resume=False, device=device)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(finetune)
