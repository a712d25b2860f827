"""headway classify"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import Device, JsonFile, Model, write_json


def classify(
    model: Model,
    second: Annotated[
        bool,
        typer.Option("--second", help="Each line is two texts with a tab between, to be compared."),
    ] = False,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Tell the label of each line of standard input, and how sure the model is.

    A model that was trained on numbers gives each line one. The file of --json has a list of
    `label` and `probability`, or of `value`.

    Example: headway classify runs/sst2 < reviews.txt
    """
    from headway.runs.open_model import open_classifier

    lines = sys.stdin.read().removesuffix("\n").split("\n")
    pairs = [line.partition("\t") for line in lines]
    if second and (alone := [n for n, (_, tab, _) in enumerate(pairs, 1) if not tab]):
        raise UserError("there is no tab, so no second text", where=f"standard input:{alone[0]}")
    texts = [first for first, _, _ in pairs] if second else lines
    seconds = [other for _, _, other in pairs] if second else None
    opened = open_classifier(model, device=device)
    if opened.labels is None:
        values = opened.estimate(texts, seconds)
        print("\n".join(f"{value:.4f}" for value in values))
        write_json(json, [{"value": value} for value in values])
        return
    found = opened.classify(texts, seconds)
    print("\n".join(f"{each.name}\t{each.probability:.4f}" for each in found))
    write_json(json, [{"label": each.name, "probability": each.probability} for each in found])


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(classify)
