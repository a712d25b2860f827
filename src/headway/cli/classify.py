"""headway classify"""

from __future__ import annotations

from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import (
    STDIN,
    Device,
    JsonFile,
    Model,
    refuse_inputs,
    spread,
    stdin_lines,
    write_json,
)


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

    A model that was trained on numbers gives each line one; an empty line stays empty, and of a
    long one the model reads the beginning, with a warning. The file of --json has a list of `label`
    and `probability`, or of `value`, and null for an empty line.

    Example: headway classify runs/sst2 < reviews.txt
    """
    refuse_inputs(json, model, STDIN)
    from headway.runs.open_model import open_classifier

    lines = stdin_lines()
    numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
    told = [lines[number - 1] for number in numbers]
    pairs = [line.partition("\t") for line in told]
    if second and not all(tab for _, tab, _ in pairs):
        number = next(n for n, line in enumerate(lines, 1) if line.strip() and "\t" not in line)
        raise UserError("there is no tab, so no second text", where=f"standard input:{number}")
    texts = [first for first, _, _ in pairs] if second else told
    seconds = [other for _, _, other in pairs] if second else None
    opened = open_classifier(model, device=device)
    if opened.labels is None:
        values = spread(lines, opened.estimate(texts, seconds, numbers=numbers) if texts else ())
        for value in values:
            print("" if value is None else f"{value:.4f}")
        write_json(json, [None if value is None else {"value": value} for value in values])
        return
    found = spread(lines, opened.classify(texts, seconds, numbers=numbers) if texts else ())
    for each in found:
        print("" if each is None else f"{each.name}\t{each.probability:.4f}")
    names = ("label", "probability")
    write_json(
        json, [None if each is None else dict(zip(names, each, strict=True)) for each in found]
    )


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(classify)
