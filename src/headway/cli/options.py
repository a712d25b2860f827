"""Options and arguments that several verbs share."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, ParameterInfo

from headway.base.files import refuse_same, to_json, write_atomic
from headway.cli.volume import WINDOW
from headway.data.stream import line_windows
from headway.settings.bounds import WIDEST

STDIN = Path("/dev/stdin")
T = TypeVar("T")
# files in a model's folder that are the model, and no results that somebody put there
_OF_MODELS = re.compile(
    r"config|token|vocab|merges|modules|labels|environment|metrics|index|^(data|state|complete)\."
    r"|\.(safetensors|bin|gguf|model|spm|jinja|toml|html)$"
)

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
Glue = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Where the task has its folder, or hub:NAME, a data set of the hub; "
        "$HEADWAY_DATA/glue if not set.",
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the results there as JSON.", show_default=False
    ),
]

_VALUES: dict[Any, str] = {bool: "", int: "N", float: "X", str: "NAME"}


def name_values(app: typer.Typer) -> None:
    """Give each value a name in capitals in the help, and a flag none (typer's own: <bool>)."""
    for group in app.registered_groups:
        name_values(cast(typer.Typer, group.typer_instance))
    for verb in (command.callback for command in app.registered_commands if command.callback):
        hints = verb.__annotations__ = get_type_hints(verb, include_extras=True)
        for name, hint in hints.items():
            for info in getattr(hint, "__metadata__", ()):
                if isinstance(info, ParameterInfo) and info.metavar is None:
                    kinds = (hint.__origin__, *get_args(hint.__origin__))
                    own = next((_VALUES[kind] for kind in kinds if kind in _VALUES), None)
                    info.metavar = name.upper() if isinstance(info, ArgumentInfo) else own


def stdin_lines() -> list[str]:
    """The lines of standard input, which is UTF-8 whatever the terminal has.

    Raises UserError naming the line that is not.
    """
    stdin = cast(BufferedReader, sys.stdin.buffer)
    windows = line_windows(stdin, size=WINDOW, where="standard input")
    return [line for lines in windows for line in lines]


def spread(lines: Sequence[str], answers: Iterable[T]) -> list[T | None]:
    """Answers to the lines that have text, each beside its line; None beside an empty one."""
    left = iter(answers)
    return [next(left) if line.strip() else None for line in lines]


def refuse_inputs(out: Path | None, *inputs: Path | None) -> None:
    """Raise UserError if `out` would overwrite an input: a file, or one that a folder's model has.

    What else is in such a folder may be results of before.
    """
    if out is None:
        return
    folders = [path for path in inputs if path is not None and path.is_dir()]
    refuse_same(out, *inputs)
    refuse_same(
        out, *(each for path in folders for each in path.rglob("*") if _OF_MODELS.search(each.name))
    )


def write_json(path: Path | None, value: Any) -> None:
    """Write results to a file if one was named; numbers that are none become null."""
    if path is not None:
        write_atomic(path, to_json(_finite(value)))


def _finite(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_constant=lambda _: None)
