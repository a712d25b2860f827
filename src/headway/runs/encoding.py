"""Encoding a stream of pairs: ids to the disk, and what their tokens look like counted."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headway.batches.on_disk import SideWriter
from headway.batches.order import Rows
from headway.batches.pairs import EncodedPairs
from headway.data.notes import LONG, RATIO, Notes
from headway.data.pair_stream import Block, PairStream, Side
from headway.data.report import PreparationReport, SideReport
from headway.runs.tokenizers import Tokenizers
from headway.settings.data import DataSettings
from headway.tokens.tokenizer import Tokenizer

FAR = 3  # one side with more than this many times the other's tokens is noticed, if it has 10
_TEN = 10
_LOOKED_AT = 200  # texts with unknown tokens in which these are looked up
_SHOWN = 10  # of them in the report
_POWERS = 40


@dataclass
class SideCounts:
    """Tokens of one side, counted block by block."""

    tokenizer: Tokenizer
    tokens: int = 0
    longest: int = 0
    words: int = 0  # tokens without end symbols
    unknown: int = 0
    lengths: Rows = field(default_factory=lambda: np.zeros(_POWERS, np.int64))
    puzzling: list[str] = field(default_factory=list)

    def see(self, lengths: Rows) -> None:
        """The lengths of some rows, whether they are kept or not."""
        powers = np.log2(lengths).astype(np.int64)  # exact: powers of two have exact logarithms
        self.lengths += np.bincount(powers, minlength=_POWERS)
        self.longest = max(self.longest, int(lengths.max(initial=0)))

    def keep(self, ids: npt.NDArray[np.int32], lengths: Rows, texts: list[str]) -> None:
        """The ids of rows that are kept."""
        self.tokens += len(ids)
        self.words += len(ids) - len(lengths)
        places = np.flatnonzero(ids == self.tokenizer.unk)
        self.unknown += len(places)
        if len(places) and len(self.puzzling) < _LOOKED_AT:
            rows = np.unique(np.searchsorted(np.cumsum(lengths), places, side="right"))
            self.puzzling += [texts[row] for row in rows[: _LOOKED_AT - len(self.puzzling)]]

    def report(self, language: str) -> SideReport:
        """The whole count."""
        examples = self.tokenizer.unknowns(self.puzzling)[1] if self.puzzling else Counter[str]()
        powers = np.flatnonzero(self.lengths)
        counted = self.lengths[: int(powers[-1]) + 1] if len(powers) else self.lengths[:0]
        return SideReport(
            language,
            self.tokens,
            self.longest,
            tuple(counted.tolist()),
            self.unknown / self.words if self.words else 0.0,
            tuple(examples.most_common(_SHOWN)),
        )


class Encoding:
    """One pass over a stream that encodes it; `pairs` are the ids, if they were to be written.

    A pair with a side of more than `limit` tokens is noted, and left out if `drop_long`.
    """

    def __init__(
        self,
        stream: PairStream,
        tokenizers: Tokenizers,
        *,
        limit: int,
        drop_long: bool = True,
        write: bool = False,
    ) -> None:
        self.stream, self.limit, self.drop_long = stream, limit, drop_long
        self.source, self.target = SideCounts(tokenizers.source), SideCounts(tokenizers.target)
        self.notes = Notes()
        self.kept = 0
        self._fits: list[npt.NDArray[np.bool_]] = []  # a block each
        writers = [SideWriter(), SideWriter()] if write else []
        for block in stream.blocks():
            self._encode(block, writers)
        source, target = (writer.side() for writer in writers) if write else (None, None)
        self.pairs = None if source is None or target is None else EncodedPairs(source, target)

    def _encode(self, block: Block, writers: list[SideWriter]) -> None:
        sides = (self.source, self.target)
        texts = (block.sources, block.targets)
        rows = [side.tokenizer.encode(some) for side, some in zip(sides, texts, strict=True)]
        lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in rows]
        for side, each in zip(sides, lengths, strict=True):
            side.see(each)
        fits = np.maximum(*lengths) <= self.limit
        self._note(block, lengths, fits)
        if not self.drop_long:
            fits = np.ones_like(fits)
        self._fits.append(fits)
        wanted = fits.tolist()
        kept = block.only(wanted)
        self.kept += len(kept.numbers)
        for index, (side, some) in enumerate(zip(sides, (kept.sources, kept.targets), strict=True)):
            length = lengths[index][fits]
            flat = itertools.chain.from_iterable(itertools.compress(rows[index], wanted))
            ids = np.fromiter(flat, np.int32, int(length.sum()))
            side.keep(ids, length, some)
            if writers:
                writers[index].append(ids, length)

    def _note(self, block: Block, lengths: list[Rows], fits: npt.NDArray[np.bool_]) -> None:
        longer, shorter = np.maximum(*lengths), np.minimum(*lengths)
        apart = fits & (longer >= _TEN) & (longer > FAR * shorter)
        for kind, which in ((LONG, ~fits), (RATIO, apart)):
            for index in np.flatnonzero(which):
                text = f"{block.sources[index]} → {block.targets[index]}"
                counts = f"({lengths[0][index]} and {lengths[1][index]} tokens)"
                dropped = kind == LONG and self.drop_long
                self.notes.add(kind, block.numbers[index], f"{counts} {text}", dropped=dropped)

    def kept_texts(self, side: Side) -> Iterator[str]:
        """The texts of one side of the pairs that are kept, in another pass over the stream."""
        for block, fits in zip(self.stream.blocks(), self._fits, strict=True):
            kept = block.only(fits.tolist())
            yield from kept.sources if side == "source" else kept.targets

    def report(self, part: str, data: DataSettings) -> PreparationReport:
        """What the pass found."""
        reading = self.stream.reading
        assert reading is not None, "the pass has ended"
        return PreparationReport(
            part,
            self.stream.origin,
            reading.read,
            self.kept,
            self.limit,
            (*reading.notes.dropped(), *self.notes.dropped()),
            (*reading.notes.kept(), *self.notes.kept()),
            self.source.report(data.source_language),
            self.target.report(data.target_language),
        )
