"""headway translate"""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import Beam, Device, Run
from headway.data.lines import split_lines

_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")  # to any reader of the output


def translate(
    run: Run,
    beam: Beam = None,
    nbest: Annotated[
        int | None,
        typer.Option(min=1, help="Print that many a line: number, score, log-probability, text."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Draw at random instead of searching.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="With --temperature: draw from the likeliest tokens of this share."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --temperature: of the random draw.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Translate lines of standard input to lines of standard output.

    Line i of the output belongs to line i of the input; an empty line stays empty.

    Example: headway translate runs/fr-en --beam 4 < in.fr > out.en
    """
    if temperature is not None and (nbest is not None or beam is not None):
        raise UserError("--temperature draws at random: it goes without --beam and --nbest")
    if temperature is None and (top_p is not None or seed is not None):
        raise UserError("--top-p and --seed are for random draws", todo="give --temperature too")
    lines = split_lines(sys.stdin.buffer.read(), where="standard input")
    from headway.runs.load import load

    translator = load(run, device=device)
    if nbest is not None:
        for number, found in enumerate(translator.n_best(lines, nbest, beam=beam, progress=True)):
            for each in found:
                _print(f"{number + 1}\t{each.score:.4f}\t{each.log_prob:.4f}\t{_line(each.text)}")
        return
    if temperature is not None:
        texts = translator.sample(
            lines, temperature=temperature, top_p=1.0 if top_p is None else top_p, seed=seed or 0
        )
    else:
        texts = translator.translate(lines, beam=beam, progress=True)
    for text in texts:
        _print(_line(text))


def _line(text: str) -> str:
    return _LINE_ENDS.sub(" ", text)


def _print(line: str) -> None:
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(translate)
