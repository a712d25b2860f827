"""headway recipes"""

from __future__ import annotations

from typing import Annotated

import typer


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe's file.")] = None,
) -> None:
    """List the recipes that come with Headway, or print one to start your own from.

    Example: headway recipes cldr/transformer > my.toml
    """
    from headway.settings.recipe import load_recipe_text, shipped_recipes

    if name is not None:
        print(load_recipe_text(name), end="")
        return
    shipped = shipped_recipes()
    width = max(len(each) for each in shipped)
    for each, description in shipped.items():
        print(f"{each:{width}}  {description}")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(recipes)
