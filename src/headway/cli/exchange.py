"""headway export, headway import"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headway.base.progress import say

if TYPE_CHECKING:
    from headway.runs.export import Format, Storage

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SRC", help="A run, a Hugging Face folder or a .gguf file.", show_default=False
    ),
]
Destination = Annotated[
    Path, typer.Argument(metavar="DST", help="What to write.", show_default=False)
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Open what was written with the tool that it is for, and compare numbers and tokens.",
    ),
]


def export(
    source: Source,
    destination: Destination,
    format: Annotated[
        str,
        typer.Option(
            help="hf: a folder for transformers; gguf: a file for llama.cpp; ctranslate2: a folder "
            "for CTranslate2.",
            show_default=False,
        ),
    ],
    type: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How a GGUF file stores matrices: f32, f16 (if not set) or q8_0."
        ),
    ] = None,
    verify: Verify = False,
) -> None:
    """Write a model for another tool, its tokeniser with it; whole or not at all.

    Example: headway export runs/fr-en fr-en-ct2/ --format ctranslate2 --verify
    """
    _export(source, destination, format, type, verify)


def import_(
    source: Source,
    destination: Destination,
    verify: Verify = False,
    pre: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The rule by which a .gguf file's tokeniser cuts text, where the file's own is "
            "unknown or wrong: gpt-2, smollm, llama-bpe, …",
        ),
    ] = None,
) -> None:
    """Make a Hugging Face folder of a model from elsewhere, checked and in float32.

    That is the form that Headway opens the fastest, without extras, and other tools too. It is
    what `headway export --format hf` writes.

    Example: headway import SmolLM2-135M-Instruct.Q4_1.gguf smollm2/
    """
    _export(source, destination, "hf", None, verify, pre)


def _export(
    source: Path,
    destination: Path,
    format: str,
    type: str | None,
    verify: bool,
    pre: str | None = None,
) -> None:
    from headway.runs.export import export

    found = export(
        source,
        destination,
        format=cast("Format", format),
        type=cast("Storage | None", type),
        verify=verify,
        pre=pre,
    )
    if found is not None:
        say(str(found))
    print(destination)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(export)
    app.command("import")(import_)
