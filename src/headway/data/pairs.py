"""Pairs of sentences in memory, as validation and test have them, and parts as streams."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from headway.data.held_out import HELD, HeldOut, place_of
from headway.data.notes import (
    BREAKS,
    DUPLICATE,
    MOJIBAKE,
    ODD_SOURCE,
    ODD_TARGET,
    Finding,
)
from headway.data.pair_stream import PairStream, Side
from headway.data.rows import EMPTY
from headway.data.sources import Files, source_of
from headway.data.tables import PartName
from headway.settings.data import BuiltinPairs, DataSettings, PairFiles


@dataclass(frozen=True)
class Pairs:
    """Sources and their targets, and what was noticed while reading them."""

    sources: list[str]
    targets: list[str]
    origin: str
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    def texts(self, side: Side | None = None) -> Iterator[str]:
        """All texts of a side, or of both."""
        if side != "target":
            yield from self.sources
        if side != "source":
            yield from self.targets

    def digest(self) -> str:
        """SHA-256 of the content, to tell later whether the data are still the same."""
        state = hashlib.sha256()
        for text in self.texts():
            state.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return state.hexdigest()

    def first(self, n: int) -> Pairs:
        """The first `n` pairs."""
        return Pairs(self.sources[:n], self.targets[:n], self.origin)


def open_part(settings: DataSettings, name: PartName) -> PairStream | None:
    """A part of a recipe's data as a stream, of which nothing is read yet; None if it has none.

    What is held out of the training part is read as that is.
    """
    held_out = HeldOut.of(settings)
    held = held_out is not None and name in held_out.parts
    own: PartName = "train" if held else name
    source = source_of(settings, own)
    if source is None:
        return None
    part = getattr(settings, own)
    return PairStream(
        source,
        bad="few" if isinstance(part, BuiltinPairs) else part.bad,
        # what is measured on valid and test must stay what others measure
        drop_duplicates=name == "train" and settings.duplicates == "drop",
        key=f"data.{own}",
        held_out=held_out if own == "train" else None,
        part=name,
    )


def load_part(settings: DataSettings, name: PartName) -> Pairs | None:
    """The training, validation or test part of a recipe's data; None if it has none.

    What is held out of the training part comes in an order of its own: files of pairs are often
    sorted by length, and the first of these would be the shortest.

    Raises UserError for files that are missing, empty, not UTF-8 or of unequal length, for columns
    that are not there, for too many bad rows, and if nothing is held out.
    """
    stream = open_part(settings, name)
    if stream is None:
        return None
    pairs = collect(stream)
    return pairs if stream.held_out is None or name == "train" else _mixed(pairs)


def _mixed(pairs: Pairs) -> Pairs:
    order = sorted(range(len(pairs)), key=lambda row: place_of(pairs.sources[row]))
    sources, targets = ([side[row] for row in order] for side in (pairs.sources, pairs.targets))
    return replace(pairs, sources=sources, targets=targets)


def read_pairs(source: str, target: str, *, lines: int | None = None) -> Pairs:
    """Two parallel files, or their first `lines`; pairs with an empty side are left out.

    Raises UserError if the files do not have the same number of lines.
    """
    part = PairFiles(source=source, target=target, lines=lines)
    return collect(PairStream(Files(part, "--data"), key="--data"))


def collect(stream: PairStream) -> Pairs:
    """All pairs of a stream, in memory."""
    sources, targets = list[str](), list[str]()
    for block in stream.blocks():
        sources += block.sources
        targets += block.targets
    return Pairs(sources, targets, stream.origin, notices(stream))


def notices(stream: PairStream, *, duplicates: bool = False) -> tuple[str, ...]:
    """What the last pass noticed, in sentences; `duplicates` are told if that is wanted."""
    if stream.reading is None:
        raise ValueError("nothing has been read yet")
    found = stream.reading.notes.found
    told = [
        _sentence(kind, finding, stream)
        for kind, finding in found.items()
        if kind != DUPLICATE or duplicates
    ]
    return tuple(told)


def _sentence(kind: str, finding: Finding, stream: PairStream) -> str:
    count, lines = f"{finding.count:,}", finding.lines()
    source, target = stream.source.sides
    if kind == EMPTY:
        return f"{count} pairs with {EMPTY} left out"
    if kind == DUPLICATE:
        kept = "left out" if finding.dropped else "kept (data.duplicates = 'drop' leaves them out)"
        return f"{count} pairs that were there before {kept}"
    if kind in HELD.values():
        return f"{count} pairs {kind}"
    if kind in (ODD_SOURCE, ODD_TARGET):
        name = source if kind == ODD_SOURCE else target
        return f"{name}: {count} lines hold odd separators or NUL ({lines})"
    if kind == BREAKS:
        return f"{count} rows hold line breaks, which became spaces ({lines})"
    if kind == MOJIBAKE:
        return f"{count} texts hold {MOJIBAKE} ({lines}): was the file converted the right way?"
    return f"{count} rows left out: {kind} ({lines})"
