"""headway fill"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from headway.cli.options import (
    STDIN,
    Device,
    JsonFile,
    Model,
    refuse_inputs,
    stdin_lines,
    write_json,
)


def fill(
    model: Model,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="A text with masks; repeatable. Lines of stdin if not set.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Guesses for each mask.")] = 5,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Guess the words that a text has [MASK] for, with a run or a BERT that has its masked head.

    Each text is printed with the likeliest token in each mask, then the guesses of each mask with
    their probabilities; an empty line stays empty. The file of --json has a list of them, with
    `text` and `masks`, and null for an empty line; each guess has `token`, `id` and `probability`.

    Example: headway fill runs/bert --text "The [MASK] is returned."
    """
    refuse_inputs(json, model, STDIN)
    from headway.runs.open_model import open_filler

    lines = text or stdin_lines()
    told = {number: line for number, line in enumerate(lines, start=1) if text or line.strip()}
    guessed = open_filler(model, device=device).fill(list(told.values()), top, numbers=list(told))
    by_number = dict(zip(told, guessed, strict=True))
    found = [by_number.get(number) for number in range(1, 1 + len(lines))]
    for each in found:
        print("" if each is None else each.text)
        for number, guesses in enumerate(each.masks if each else (), start=1):
            for guess in guesses:
                print(f"  {number}\t{guess.probability:.4f}\t{guess.token.strip()}")
    write_json(json, [None if each is None else dataclasses.asdict(each) for each in found])


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(fill)
