"""headway prompt"""

from __future__ import annotations

import json as json_lines
from pathlib import Path
from typing import Annotated, Literal

import typer

from headway.base.errors import UserError
from headway.base.files import refuse_same, write_atomic
from headway.cli.options import Device, Glue, JsonFile, Model, refuse_inputs, write_json


def prompt(  # long: its options
    model: Model,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A task of GLUE, such as glue/sst2."),
    ] = None,
    glue: Glue = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Or questions as JSON lines: prompt, choices, answer."),
    ] = None,
    shots: Annotated[
        str, typer.Option(metavar="N,N,…", help="Numbers of examples before a question.")
    ] = "0,1,4,16",
    draws: Annotated[int, typer.Option(min=1, help="How often the examples are drawn.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws others.")] = 1,
    lines: Annotated[
        int | None, typer.Option(min=1, help="Ask that many of the questions; all if not set.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help=r"The prompt, with {text} and {second}, or keys of a row; \n is a new line, {{ "
            "and }} are braces.",
        ),
    ] = None,
    by: Annotated[
        Literal["likelihood", "generation"] | None,
        typer.Option(help="Choose, or write a line; choose where there are choices if not set."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write each answer there, as JSON lines."),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curve there (.svg or .png).")
    ] = None,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Ask a language model a task's questions, after no examples and after some.

    Accuracy with intervals of 95 %, by log-likelihood or by what it writes, and how much better
    that is than guessing. The seed draws examples and questions.

    Example: headway prompt model.gguf --task glue/sst2 --lines 200
    """
    for out in (json, log, svg):
        refuse_inputs(out, model, file)
    refuse_same(json, log, svg)
    refuse_same(log, svg)
    from headway.lens.figures import picture_kind
    from headway.runs.prompting import prompt as ask

    if svg is not None:
        picture_kind(svg)

    found = ask(
        model,
        task,
        glue=glue,
        file=file,
        template=None if template is None else template.replace(r"\n", "\n"),
        shots=_numbers(shots),
        draws=draws,
        seed=seed,
        lines=lines,
        by=by,
        device=device,
        progress=True,
    )
    print(found.table())
    write_json(json, found.to_table())
    if log is not None:
        records = (json_lines.dumps(each, ensure_ascii=False) + "\n" for each in found.records)
        write_atomic(log, "".join(records))
    if svg is not None:
        found.draw(svg)


def _numbers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UserError(f"'{text}' is no list of numbers", where="--shots", todo="such as 0,1,4,16")
    return [int(word) for word in words]


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(prompt)
