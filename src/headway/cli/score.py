"""headway score"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.links import LinksFile, open_links
from headway.cli.options import Device, Run, refuse_inputs
from headway.cli.volume import WINDOW, Pace, Stops, open_lines
from headway.data.lines import read_lines, unequal

if TYPE_CHECKING:
    from headway.runs.scoring import TokenScores
    from headway.runs.translator import Translator


def score(
    run: Run,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file of sentences.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Their translations.")],
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the log-probability of each token there, as JSON lines.",
            show_default=False,
        ),
    ] = None,
    attention: LinksFile = None,
    device: Device = "auto",
) -> None:
    """Print how likely a run finds given translations: a log-probability a line, in nats.

    Line i of the output belongs to line i of both files. It is the sum over the target's tokens,
    end symbol included, each given the source and what precedes it.

    Example: headway score runs/fr-en test.fr test.en > scores.txt
    """
    refuse_inputs(tokens, run, source, target, attention)
    refuse_inputs(attention, run, source, target)
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        counts = len(sources), len(targets)
        both = enumerate(zip(sources, targets, strict=False), start=1)
        parted = (number for number, (one, other) in both if bool(one) != bool(other))
        raise unequal([str(source), str(target)], counts, next(parted, min(counts) + 1))
    from headway.runs.open_model import open_translator

    _score(open_translator(run, device=device), sources, targets, tokens, attention)


def _score(
    translator: Translator,
    sources: list[str],
    targets: list[str],
    tokens: Path | None,
    attention: Path | None,
) -> None:
    with (
        open_links(translator, attention) as links,
        open_lines(tokens) as details,
        Pace("scoring", lambda: len(sources)) as pace,
        Stops() as stops,
    ):
        for start in range(0, len(sources), WINDOW):
            pairs = sources[start : start + WINDOW], targets[start : start + WINDOW]
            found = translator.score_tokens(*pairs, tell=pace.tell, first=start + 1)
            numbers = range(start + 1, start + 1 + len(found))
            looks = links.lines(list(zip(numbers, *pairs, strict=True)))
            rows = [_json(translator, *row) for row in zip(numbers, found, strict=True)]
            with stops.writing(len(found)):
                for each in found:
                    sys.stdout.buffer.write(b"%.4f\n" % each.log_prob)
                sys.stdout.buffer.flush()
                links.file.write(looks)
                details.write(rows)


def _json(translator: Translator, number: int, scores: TokenScores) -> str:
    table = {
        "line": number,
        "log_prob": round(scores.log_prob, 6),
        "tokens": translator.tokenizers.target.pieces(scores.ids),
        "log_probs": [round(value, 6) for value in scores.log_probs],
    }
    return json.dumps(table, ensure_ascii=False)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(score)
