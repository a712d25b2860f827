"""Options and arguments that several verbs share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.base.files import to_json, write_atomic
from headway.settings.bounds import WIDEST

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A run, a Hugging Face folder, or a .gguf file.", show_default=False
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Beam = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=WIDEST,
        help="Hypotheses kept side by side; 1 is greedy. The recipe's if not set.",
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the results there as JSON.", show_default=False
    ),
]


def write_json(path: Path | None, value: Any) -> None:
    """Write results to a file if one was named; numbers that are none become null."""
    if path is not None:
        write_atomic(path, to_json(_finite(value)))


def _finite(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_constant=lambda _: None)
