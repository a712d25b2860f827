"""The file of alignments that --attention names, written as they are made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.base.errors import UserError
from headway.cli.volume import LineFile, open_lines

if TYPE_CHECKING:
    from headway.lens.alignment import Alignment
    from headway.runs.translator import Translator

LinksFile = Annotated[
    Path | None,
    typer.Option(
        "--attention",
        metavar="FILE",
        help="Write which source word each target word looks at, as '0-0 1-2' a line; the weights "
        "of all tokens, as JSON, if FILE ends in .jsonl.",
        show_default=False,
    ),
]


class Links:
    """Makes and writes the alignment of each pair that is put out; without a file, nothing."""

    def __init__(self, translator: Translator, path: Path | None, file: LineFile) -> None:
        self.translator, self.path, self.file = translator, path, file

    def lines(self, pairs: Sequence[tuple[int, str, str]]) -> list[str]:
        """A line for each (number, source, target); of one without text on a side, no links."""
        if self.path is None:
            return []
        filled = [
            place
            for place, (_, source, target) in enumerate(pairs)
            if source.strip() and target.strip()
        ]
        found = self.translator.alignments(
            [pairs[place][1] for place in filled],
            [pairs[place][2] for place in filled],
            quiet=True,  # of long texts has been told
        )
        made = dict(zip(filled, found, strict=True))
        write = _json if self.path.suffix == ".jsonl" else _pharaoh
        return [write(number, made.get(place)) for place, (number, *_) in enumerate(pairs)]


@contextmanager
def open_links(translator: Translator, path: Path | None) -> Iterator[Links]:
    """The file, empty at first. Raises UserError if it cannot be, or the model has no attention."""
    if path is not None:
        from headway.runs.alignments import check

        check(translator)
        if path.suffix == ".json":
            raise UserError(
                "alignments are written a line at a time",
                where=str(path),
                todo="let it end in .jsonl for JSON lines",
            )
    with open_lines(path) as file:
        yield Links(translator, path, file)


def _pharaoh(_number: int, alignment: Alignment | None) -> str:
    links = alignment.links() if alignment else []
    return " ".join(f"{source}-{target}" for source, target in links)


def _json(number: int, alignment: Alignment | None) -> str:
    table: dict[str, object] = {"line": number, "source": [], "target": [], "weights": []}
    if alignment:
        table |= {
            "source": alignment.source,
            "target": alignment.target,
            "weights": [[round(weight, 4) for weight in row] for row in alignment.rows()],
            "links": alignment.links(),
            "layer": alignment.layer,
            "heads": alignment.heads,
        }
    return json.dumps(table, ensure_ascii=False)
