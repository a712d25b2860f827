"""headway translate"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headway.base.errors import UserError
from headway.base.progress import say
from headway.cli.links import LinksFile, open_links
from headway.cli.options import Beam, Device, Run, refuse_inputs
from headway.cli.volume import WINDOW, Pace, Stops, Unfinished, Unknown
from headway.data.stream import line_windows, lines_ahead
from headway.settings.bounds import WIDEST

if TYPE_CHECKING:
    from headway.runs.translation import Translation
    from headway.runs.translator import Translator

_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")  # to any reader of the output
Decode = Callable[[list[str], int, Callable[[int], None]], "list[list[Translation]]"]


def translate(
    run: Run,
    beam: Beam = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=WIDEST,
            help="Print that many a line, best first, between tabs: number of the line, score "
            "(log-probability after the length penalty), log-probability in nats, why it stopped "
            "(end; limit: cut; loop: cut while it repeated itself), text.",
        ),
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
    attention: LinksFile = None,
    device: Device = "auto",
) -> None:
    """Translate lines of standard input to lines of standard output.

    Line i of the output belongs to line i of the input; an empty line stays empty. Lines are
    answered as they come: one by one where somebody types, in blocks where there are many.

    Examples: headway translate runs/fr-en --beam 4 < in.fr > out.en

    echo "3 mars 2021" | headway translate runs/fr-en
    """
    if temperature is not None and (nbest is not None or beam is not None):
        raise UserError("--temperature draws at random: it goes without --beam and --nbest")
    if temperature is None and (top_p is not None or seed is not None):
        raise UserError("--top-p and --seed are for random draws", todo="give --temperature too")
    refuse_inputs(attention, run, Path("/dev/stdin"))
    from headway.runs.open_model import open_translator

    translator = open_translator(run, device=device)
    if temperature is None:
        decode = _search(translator, nbest or 1, beam)
    else:
        decode = _draw(translator, temperature, 1.0 if top_p is None else top_p, seed or 0)
    _answer(translator, decode, attention, rows=nbest is not None)


def _answer(translator: Translator, decode: Decode, attention: Path | None, *, rows: bool) -> None:
    """Read, translate and write; `rows`: with what is known of each translation."""
    unfinished, unknown = Unfinished(), Unknown()
    stdin = cast(BufferedReader, sys.stdin.buffer)
    if sys.stdin.isatty():
        say("type a sentence a line; Ctrl-D ends")
    with (
        open_links(translator, attention) as links,
        Pace("translating", lambda: lines_ahead(stdin)) as pace,
        Stops() as stops,
    ):
        for lines in line_windows(stdin, size=WINDOW, where="standard input"):
            first = stops.lines + 1
            made: list[tuple[int, str, Translation]] = []
            for number, found in enumerate(decode(lines, first, pace.tell), first):
                unfinished.note(number, found[0].stop)
                made += [(number, _LINE_ENDS.sub(" ", each.text), each) for each in found]
            for number, row in enumerate(translator.tokenizers.source.cut(lines), first):
                unknown.note(number, *row)
            looks = links.lines([(n, lines[n - first], text) for n, text, _ in made])
            with stops.writing(len(lines)):
                for number, text, each in made:
                    _print(_row(number, text, each) if rows else text)
                sys.stdout.buffer.flush()
                links.file.write(looks)
            pace.tell(sum(not line.strip() for line in lines))
    unknown.say()
    unfinished.say()


def _search(translator: Translator, n: int, beam: int | None) -> Decode:
    def decode(
        lines: list[str], first: int, tell: Callable[[int], None]
    ) -> list[list[Translation]]:
        return translator.n_best(lines, n, beam=beam, first=first, progress=tell)

    return decode


def _draw(translator: Translator, temperature: float, top_p: float, seed: int) -> Decode:
    def decode(
        lines: list[str], first: int, tell: Callable[[int], None]
    ) -> list[list[Translation]]:
        drawn = translator.draws(
            lines, temperature=temperature, top_p=top_p, seed=seed, first=first, progress=tell
        )
        return [[each] for each in drawn]

    return decode


def _row(number: int, text: str, each: Translation) -> str:
    return f"{number}\t{each.score:.4f}\t{each.log_prob:.4f}\t{each.stop}\t{text}"


def _print(line: str) -> None:
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(translate)
