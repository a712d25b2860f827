"""headway info"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import JsonFile, refuse_inputs, write_json


def info(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|PRESET",
            help="A run, a Hugging Face folder, a .gguf file, or a preset.",
            show_default=False,
        ),
    ],
    length: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Of a preset: tokens of a text.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, max=2**24, help="Of a preset: ids; the published.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Say what a model is: of a run also data, progress, scores; or what a preset comes to.

    Of a preset: parameters, operations of training and inference, bytes of training and cache.

    Example: headway info runs/fr-en

    Example: headway info model.gguf

    Example: headway info llama-3.2-1b --length 2048
    """
    refuse_inputs(json, run)
    from headway.settings.presets import PRESETS

    if str(run) in PRESETS and not run.exists():
        _preset(str(run), length, vocabulary, json)
        return
    if not run.exists() and run.suffix != ".gguf":
        todo = f"presets: {', '.join(PRESETS)}"
        raise UserError("there is no such folder, and no such preset", where=str(run), todo=todo)
    if length is not None or vocabulary is not None:
        raise UserError("--length and --vocabulary are for a preset", where=str(run))
    from headway.runs.info import describe

    facts = describe(run)
    for name, value in facts.items():
        print(f"{name:14} {value}")
    write_json(json, facts)


def _preset(name: str, length: int | None, vocabulary: int | None, json: Path | None) -> None:
    from headway.settings.sheet import preset_sheet

    sheet = preset_sheet(name, length=length, n_tokens=vocabulary)
    for heading, facts in sheet.items():
        print(f"{heading}")
        for fact, number in facts.items():
            print(f"  {fact:46} {number:>24,.0f}")
    write_json(json, sheet)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(info)
