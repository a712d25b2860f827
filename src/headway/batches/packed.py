"""Documents end to end, cut into rows of one length; sources mixed in fixed shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headway.batches.order import Batches, Rows, generator
from headway.batches.pairs import EncodedSide


class PackedBatch(NamedTuple):
    """Rows of documents: what is read, what follows each token, and of which document it is.

    Of `following` those count that `predicted` marks: not the beginning of another document, and
    not what fills the last row of all. `numbers` are None where no row has a border.
    """

    ids: Tensor  # (B, T)
    following: Tensor  # (B, T)
    predicted: Tensor  # (B, T)
    numbers: Tensor | None  # (B, T)

    @property
    def counts(self) -> dict[str, int]:
        """The tokens that are predicted."""
        return {"token": self.tokens}

    @property
    def tokens(self) -> int:
        """The tokens that are predicted."""
        return int(self.predicted.sum())

    def to(self, device: torch.device) -> PackedBatch:
        """The same batch on a device."""
        return PackedBatch(*(part if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


class Packing:
    """The rows of one source: its documents in another order each pass, `length` tokens a row.

    A row begins with the last token of the one before, which that only predicted: every token of a
    document but its first is predicted once a pass. With `seed` None the order is the documents'.
    """

    def __init__(self, documents: EncodedSide, length: int, *, seed: Sequence[int] | None) -> None:
        self.documents, self.length, self.seed = documents, length, seed
        self.n_rows = -(-(len(documents.ids) - 1) // length)
        self._order = lru_cache(maxsize=2)(self._drawn)

    def _drawn(self, number: int) -> tuple[Rows, Rows]:
        """The documents of a pass in their order, and where each begins; the end is the last."""
        lengths = self.documents.lengths
        order = np.arange(len(lengths))
        if self.seed is not None:
            order = generator(*self.seed, number).permutation(len(lengths))
        return order, np.concatenate(([0], np.cumsum(lengths[order])))

    def row(self, place: int) -> tuple[npt.NDArray[np.int32], Rows]:
        """Up to `length` + 1 ids from row `place` on, counted over all passes; their documents."""
        number, row = divmod(place, self.n_rows)
        order, begins = self._order(number)
        start, end = row * self.length, min((row + 1) * self.length + 1, int(begins[-1]))
        document = int(np.searchsorted(begins, start, side="right")) - 1
        pieces, numbers, lengths = [], [], []
        while start < end:
            source = self.documents.starts[order[document]] + start - begins[document]
            n = min(end, int(begins[document + 1])) - start
            pieces.append(self.documents.ids[source : source + n])
            numbers.append(document)
            lengths.append(n)
            start, document = start + n, document + 1
        return np.concatenate(pieces), np.repeat(numbers, lengths)

    def release(self) -> None:
        """Let the system take back the pages that were read."""
        self.documents.release()


class RowSource(Protocol):
    """A source of which rows are counted over all passes, `n_rows` each pass."""

    n_rows: int

    def release(self) -> None:
        """Let the system take back the pages that were read."""


S = TypeVar("S", bound=RowSource)


@dataclass(frozen=True)
class MixedBatches(Batches, Generic[S]):
    """An epoch has as many rows as all sources; each source has its share of them.

    A source goes on from epoch to epoch where it was left, and begins another pass at its end.
    Rows of an epoch are numbers: those of the first source first.
    """

    sources: Sequence[S]
    shares: Sequence[float]
    budget: int
    seed: int
    pad: int

    def counts(self, epochs: int) -> list[int]:
        """How many rows of each source the first `epochs` epochs have."""
        total = epochs * sum(source.n_rows for source in self.sources)
        return [round(share * total) for share in self.shares]

    def places(self, epoch: int, rows: Rows) -> tuple[Rows, Rows]:
        """Of which source each row of an epoch is, and its place over all passes there."""
        before = np.array(self.counts(epoch))
        edges = np.concatenate(([0], np.cumsum(self.counts(epoch + 1) - before)))
        chosen = np.searchsorted(edges, rows, side="right") - 1
        return chosen, before[chosen] + rows - edges[chosen]

    def shuffled(self, epoch: int) -> Rows:
        """All rows of an epoch."""
        n = sum(np.subtract(self.counts(epoch + 1), self.counts(epoch)))
        return generator(self.seed, epoch).permutation(int(n))

    def release(self) -> None:
        """Let the system take back the pages that were read."""
        for source in self.sources:
            source.release()


@dataclass(frozen=True)
class PackedBatches(MixedBatches[Packing]):
    """Rows of documents end to end, mixed."""

    def epoch(self, epoch: int) -> list[Rows]:
        """As many rows a batch as the budget has room for."""
        rows = self.shuffled(epoch)
        size = max(1, self.budget // self.sources[0].length)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def batch(self, epoch: int, rows: Rows) -> PackedBatch:
        """Those rows."""
        chosen, places = self.places(epoch, rows)
        found = [
            self.sources[source].row(place)
            for source, place in zip(chosen.tolist(), places.tolist(), strict=True)
        ]
        self.release()
        return packed(found, self.sources[0].length, self.pad)


def packed(
    rows: Sequence[tuple[npt.NDArray[np.int32], Rows]], length: int, pad: int
) -> PackedBatch:
    """Ids and document numbers of rows of up to `length` + 1 tokens as tensors."""
    ids = np.full((len(rows), length + 1), pad, np.int64)
    numbers = np.full((len(rows), length + 1), -1, np.int64)
    for place, (some, documents) in enumerate(rows):
        ids[place, : len(some)] = some
        numbers[place, : len(some)] = documents
    same = numbers[:, 1:] == numbers[:, :-1]
    predicted = same & (numbers[:, 1:] >= 0)
    # what fills a row is read last and predicts nothing, so that it needs no border
    borders = bool((~same & (numbers[:, 1:] >= 0)).any())
    return PackedBatch(
        torch.from_numpy(ids)[:, :-1].contiguous(),
        torch.from_numpy(ids)[:, 1:].contiguous(),
        torch.from_numpy(predicted),
        torch.from_numpy(numbers)[:, :-1].contiguous() if borders else None,
    )


def shares_of(
    tokens: Mapping[str, int], weights: Mapping[str, float | None], temperature: float
) -> list[float]:
    """The share of each source: by weight where it has one, else tokens to the 1 / temperature."""
    largest = max(tokens.values()) if temperature < 1.0 else 1  # a power above 1 can be too great
    sizes = {
        name: weights[name] or (tokens[name] / largest) ** (1.0 / temperature) for name in tokens
    }
    total = sum(sizes.values())
    return [size / total for size in sizes.values()]
