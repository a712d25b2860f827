"""headway train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.base.errors import Interrupted, UserError
from headway.cli.options import Device

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the recipe, such as train.steps=500; may be given again.",
    ),
]


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A shipped recipe or a TOML file; headway recipes lists them."),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder; runs/RECIPE if not set.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in that folder.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Train what a recipe says, judge it and write its report.

    Example: headway train cldr/transformer --set train.steps=2000 --out runs/fr-en
    """
    from headway.settings.recipe import parse_overrides

    if resume and recipe is not None and out is None and Path(recipe).is_dir():
        todo = f"name it with --out: headway train --resume --out {recipe}"
        raise UserError("a folder, where a recipe is named", where=recipe, todo=todo)
    overrides = parse_overrides(settings or [])
    train_recipe(recipe, overrides, out=out, resume=resume, device=device)


def train_recipe(
    recipe: str | None,
    overrides: dict[str, Any],
    *,
    out: Path | None,
    resume: bool,
    device: str,
) -> None:
    """Train, and say what can be done next; a stop says how to go on."""
    from headway.settings.recipe import load_recipe, origin_of, recipe_table

    if recipe is not None and not resume:  # mistakes are told before torch is loaded
        where, table = recipe_table(recipe, overrides)
        if origin_of(table) is None:  # else the model's settings stand elsewhere
            load_recipe(table, where=where)
    from headway.runs.train import run_place, run_recipe

    try:
        opened = run_recipe(recipe, overrides, out=out, resume=resume, device=device)
    except Interrupted as stopped:
        again = f"headway train --resume --out {run_place(recipe, out)}"
        raise Interrupted(stopped.signal, f"{stopped}\ngo on with: {again}") from None
    if opened is None:  # of several ranks the first one speaks
        return
    folder = run_place(recipe, out)
    print(f"{opened!r}\n{folder}/report.html\nnext: headway {opened.use.format(folder)}")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(train)
