"""The pairs of a part as a stream of blocks, clean and counted, as often as they are asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headway.base.errors import UserError
from headway.data.held_out import HELD, HeldOut
from headway.data.lines import ODD
from headway.data.notes import BREAKS, DUPLICATE, MOJIBAKE, ODD_SOURCE, ODD_TARGET, Notes
from headway.data.rows import EMPTY, Bad, Row, Source
from headway.data.tables import PartName
from headway.settings.data import Bad as BadRule

BLOCK = 1024  # rows that are in memory at a time, as texts and as ids
FEW = 0.05  # of the rows may be bad
# UTF-8 that was read as Latin-1 or Windows-1252, and what decoders put for bytes they cannot read
_WINDOWS = "ŒœŠšŸŽžƒˆ˜–—‘-„†-•…‰‹›€™"  # what Windows-1252 has between 0x80 and 0x9f
WRONG = re.compile(f"[ÃÂ][\x80-\xbf{_WINDOWS}]|â€|\ufffd")
_BREAK = re.compile("\r?\n")
Hashes = npt.NDArray[np.uint64]
Which = npt.NDArray[np.bool_]
Side = Literal["source", "target"]


class Block(NamedTuple):
    """Some pairs and the numbers of their lines."""

    numbers: list[int]
    sources: list[str]
    targets: list[str]

    def only(self, wanted: Iterable[bool]) -> Block:
        """Those rows that are wanted."""
        chosen = list(wanted)
        return Block(
            list(compress(self.numbers, chosen)),
            list(compress(self.sources, chosen)),
            list(compress(self.targets, chosen)),
        )


class Seen:
    """A set of 64-bit hashes in sorted arrays: 8 bytes each, where a set of Python takes 70."""

    def __init__(self) -> None:
        self._sorted: list[Hashes] = []

    def has(self, hashes: Hashes) -> Which:
        """Of each whether it is there."""
        known = np.zeros(len(hashes), bool)
        for some in self._sorted:
            places = np.searchsorted(some, hashes)
            known |= some[np.minimum(places, len(some) - 1)] == hashes
        return known

    def add(self, hashes: Hashes) -> Which:
        """Put them in; says of each whether it was there already, earlier in `hashes` too."""
        values, first = np.unique(hashes, return_index=True)
        known = self.has(values)
        repeated = np.ones(len(hashes), bool)
        repeated[first] = known
        fresh = values[~known]
        # arrays of like size become one, so that there are few of them and each is merged rarely
        while self._sorted and len(self._sorted[-1]) <= 2 * len(fresh):
            fresh = np.sort(np.concatenate((self._sorted.pop(), fresh)), kind="stable")
        if len(fresh):
            self._sorted.append(fresh)
        return repeated


class Reading:
    """One pass over the rows: what was kept, what was noticed, and the hash of both sides.

    `rows` counts all that the source has, `read` those of this part. Where pairs are held out, bad
    rows, which have no source, are the training part's, and are told there.
    """

    def __init__(
        self, *, drop_duplicates: bool, held_out: HeldOut | None = None, part: PartName = "train"
    ) -> None:
        self.notes, self.broken = Notes(), Notes()
        self.rows = self.read = self.kept = self.bad = 0
        self._held_out, self._part = held_out, part
        self.hashes = {"source": hashlib.sha256(), "target": hashlib.sha256()}
        self._drop_duplicates = drop_duplicates
        self._seen = Seen()

    def forget(self) -> None:
        """The pass is over: which pairs were there is no longer of use."""
        self._seen = Seen()

    def clean(self, rows: list[Row | Bad]) -> Block:
        """The pairs that can be used among some rows."""
        pairs = self._own(rows)
        if not pairs:
            return Block([], [], [])
        block = self._without_breaks(
            Block(
                [row.number for row in pairs],
                [row.source for row in pairs],
                [row.target for row in pairs],
            )
        )
        self._look(block)
        block = self._filled(block)
        block = self._unrepeated(block)
        self.kept += len(block.numbers)
        for side, texts in (("source", block.sources), ("target", block.targets)):
            self.hashes[side].update(_content(texts))
        return block

    def _own(self, rows: list[Row | Bad]) -> list[Row]:
        """The pairs of this part."""
        others = self._held_out is None or self._part == "train"  # are told here, and counted
        pairs = []
        for row in rows:
            if isinstance(row, Bad):
                self.bad += 1
                self.broken.add(row.kind, row.number, row.text, dropped=True)
                if others:
                    self.notes.add(row.kind, row.number, row.text, dropped=True)
                continue
            part = self._part if self._held_out is None else self._held_out.part(row.source)
            if part == self._part:
                pairs.append(row)
            elif others:
                text = f"{row.source} → {row.target}"
                self.notes.add(HELD[part], row.number, text, dropped=True)
        self.rows += len(rows)
        self.read += len(rows) if others else len(pairs)
        return pairs

    def _without_breaks(self, block: Block) -> Block:
        numbers, *sides = block
        broken = [index for side in sides for index, text in enumerate(side) if "\n" in text]
        for index in sorted(set(broken)):
            self.notes.add(BREAKS, numbers[index], repr(sides[0][index])[1:-1])
            for side in sides:
                side[index] = _BREAK.sub(" ", side[index])
        return block

    def _look(self, block: Block) -> None:
        """Notice characters that should not be there; a quick look at all texts at once first."""
        for kind, texts in ((ODD_SOURCE, block.sources), (ODD_TARGET, block.targets)):
            if ODD.search("".join(texts)):
                for number, text in zip(block.numbers, texts, strict=True):
                    if ODD.search(text):
                        self.notes.add(kind, number, repr(text)[1:-1])
        for texts in (block.sources, block.targets):
            whole = "\n".join(texts)
            if any(letters in whole for letters in ("Ã", "Â", "â€", "\ufffd")):
                for number, text in zip(block.numbers, texts, strict=True):
                    if WRONG.search(text):
                        self.notes.add(MOJIBAKE, number, text)

    def _filled(self, block: Block) -> Block:
        """Without pairs that have an empty side."""
        wanted = [
            bool(source.strip() and target.strip())
            for source, target in zip(block.sources, block.targets, strict=True)
        ]
        if all(wanted):
            return block
        for number, source, target in zip(*block.only(not each for each in wanted), strict=True):
            self.notes.add(EMPTY, number, f"{source} → {target}", dropped=True)
        return block.only(wanted)

    def _unrepeated(self, block: Block) -> Block:
        """Count the pairs that were there before, and leave them out if that is wanted."""
        hashes = b"".join(
            hashlib.blake2b(
                f"{source}\n{target}".encode("utf-8", "surrogatepass"), digest_size=8
            ).digest()
            for source, target in zip(block.sources, block.targets, strict=True)
        )
        repeated = self._seen.add(np.frombuffer(hashes, np.uint64))
        if not repeated.any():
            return block
        for number, source, target in zip(*block.only(repeated.tolist()), strict=True):
            text = f"{source} → {target}"
            self.notes.add(DUPLICATE, number, text, dropped=self._drop_duplicates)
        return block.only((~repeated).tolist()) if self._drop_duplicates else block


@dataclass
class PairStream:
    """The usable pairs of a source of rows. Each pass reads anew and must find the same.

    `reading` is the last whole pass. Raises UserError, at the end of a pass, if too many rows are
    bad (see `bad`), if none is left, or if the content is not that of the pass before.
    """

    source: Source
    bad: BadRule = "few"
    drop_duplicates: bool = False
    key: str = "data"
    held_out: HeldOut | None = None
    part: PartName = "train"  # of those into which `held_out` divides the rows
    reading: Reading | None = field(default=None, init=False)
    _digest: str | None = field(default=None, init=False)

    def blocks(self) -> Iterator[Block]:
        """One pass over the pairs."""
        before = self.reading
        now = Reading(drop_duplicates=self.drop_duplicates, held_out=self.held_out, part=self.part)
        # all sources, then all targets: this pass goes on where the one before left the sources
        both = before.hashes["source"].copy() if before else None
        rows = self.source.rows()
        while some := list(islice(rows, BLOCK)):
            block = now.clean(some)
            if now.bad and self.bad == "refuse":
                raise self._too_bad(now, "so far")
            if both:
                both.update(_content(block.targets))
            if block.numbers:
                yield block
        self._check(now, before)
        now.forget()
        self.reading = now
        if both:
            self._digest = both.hexdigest()

    @property
    def origin(self) -> str:
        """What messages call the part."""
        held = self.held_out is not None and self.part != "train"
        return self.source.origin + (f", {HELD[self.part]}" if held else "")

    def texts(self, side: Side | None = None) -> Iterator[str]:
        """One pass over the texts of a side, or of both."""
        for block in self.blocks():
            if side != "target":
                yield from block.sources
            if side != "source":
                yield from block.targets

    def digest(self) -> str:
        """SHA-256 of the content, as `Pairs.digest` has it; takes two passes."""
        while self._digest is None:
            for _ in self.blocks():
                pass
        return self._digest

    def _check(self, now: Reading, before: Reading | None) -> None:
        if self.bad == "few" and now.bad > FEW * now.rows:
            raise self._too_bad(now, f"more than {FEW:.0%}")
        if not now.kept:
            raise self._nothing(now)
        if before and any(
            before.hashes[side].digest() != now.hashes[side].digest() for side in now.hashes
        ):
            raise UserError(
                "the data changed while they were being read",
                where=self.source.origin,
                todo="start again when nothing writes to them",
            )

    def _nothing(self, now: Reading) -> UserError:
        held = self.part != "train" or any(now.notes.count(kind) for kind in HELD.values())
        if self.held_out is None or not held:
            return UserError("no pair has text on both sides", where=self.source.origin)
        return UserError(
            f"data.held_out = {self.held_out.share} leaves no pair of {now.rows:,} rows for the "
            f"part '{self.part}'",
            where=self.source.origin,
            todo="give more data, another share, or files for data.valid and data.test",
        )

    def _too_bad(self, now: Reading, how: str) -> UserError:
        kinds = ", ".join(
            f"{finding.count:,} with {finding.kind} ({finding.lines()})"
            for finding in now.broken.dropped()
        )
        return UserError(
            f"{now.bad:,} of {now.rows:,} rows cannot be used, {how}: {kinds}",
            where=self.source.origin,
            todo=f"correct them, or leave out any number of them with {self.key}.bad = 'drop'",
        )


def _content(texts: list[str]) -> bytes:
    return "".join(text + "\n" for text in texts).encode("utf-8", "surrogatepass")
