"""Encoded pairs as padded batches, in an order that is a pure function of seed and epoch."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headway.batches.order import Batches, Rows, generator

SOURCE_STEP = 4  # source lengths within which rows of a target length are shuffled
_CAN_RELEASE = hasattr(mmap, "MADV_DONTNEED")  # Linux and macOS


class PairBatch(NamedTuple):
    """Padded ids of some pairs; which are real is told by booleans, never by an id.

    `target` begins with the start symbol and `following` (what is to be predicted) ends with the
    end symbol: position t of the one is followed by position t of the other.
    """

    source: Tensor  # (B, S)
    source_real: Tensor  # (B, S)
    target: Tensor  # (B, T)
    following: Tensor  # (B, T)
    target_real: Tensor  # (B, T)

    @property
    def counts(self) -> dict[str, int]:
        """The real target tokens."""
        return {"token": self.tokens}

    @property
    def tokens(self) -> int:
        """The real target tokens."""
        return int(self.target_real.sum())

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on a device."""
        return PairBatch(*(part.to(device) for part in self))


@dataclass(frozen=True)
class EncodedSide:
    """Rows of ids end to end: row i is `ids[starts[i] : starts[i + 1]]`.

    `pages` is the memory map that `ids` look into, if they are on the disk (see `SideWriter`).
    """

    ids: npt.NDArray[np.int32]
    starts: Rows
    pages: mmap.mmap | None = None

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> EncodedSide:
        """From a list of rows."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        starts = np.concatenate(([0], np.cumsum(lengths)))
        ids = np.fromiter((id for row in rows for id in row), np.int32, int(starts[-1]))
        return cls(ids, starts)

    @property
    def lengths(self) -> Rows:
        """Ids in each row."""
        return np.diff(self.starts)

    def release(self) -> None:
        """Let the system take back the pages that were read: else all of the file comes to stay."""
        if self.pages is not None and _CAN_RELEASE:
            self.pages.madvise(mmap.MADV_DONTNEED)

    def pad(self, rows: Rows, pad: int) -> tuple[Tensor, Tensor]:
        """Those rows as ids (B, S) padded with `pad`, and which are real (B, S)."""
        firsts = self.starts[rows]
        lengths = self.starts[rows + 1] - firsts
        places = np.arange(lengths.max(initial=0))
        real = places < lengths[:, None]  # (B, S)
        ids = np.full(real.shape, pad, np.int64)
        ids[real] = self.ids[(firsts[:, None] + places)[real]]
        self.release()
        return torch.from_numpy(ids), torch.from_numpy(real)


@dataclass(frozen=True)
class EncodedPairs:
    """Encoded sources and targets, each row ending with its end symbol."""

    source: EncodedSide
    target: EncodedSide

    def __len__(self) -> int:
        return len(self.source.lengths)

    def batch(self, rows: Rows, *, pad: int, bos: int) -> PairBatch:
        """Those rows, padded."""
        source, source_real = self.source.pad(rows, pad)
        following, target_real = self.target.pad(rows, pad)
        target = torch.full_like(following, bos)
        target[:, 1:] = following[:, :-1]
        return PairBatch(source, source_real, target, following, target_real)


def batch_rows(sources: Rows, targets: Rows, budget: int, order: Rows) -> list[Rows]:
    """Cut rows into batches of at most `budget` padded tokens a side, like lengths together.

    `order` breaks the ties between rows of like lengths: the same target length, and a source
    length in the same step of 4, so that a few padded tokens buy batches of other company each
    epoch. A row longer than the budget is a batch of its own.
    """
    order = order[np.lexsort((sources[order] // SOURCE_STEP, targets[order]))]
    longest = np.maximum(sources, targets)[order]
    batches, first, widest = [], 0, 0
    for index, length in enumerate(longest.tolist()):
        widest = max(widest, length)
        if widest * (index + 1 - first) > budget and index > first:
            batches.append(order[first:index])
            first, widest = index, length
    if first < len(order):
        batches.append(order[first:])
    return batches


@dataclass(frozen=True)
class PairBatches(Batches):
    """Pairs of like lengths together, padded with `pad`, the targets beginning with `bos`.

    `redraw` gives the pairs of an epoch, in the same rows, where each epoch has its own.
    """

    pairs: EncodedPairs
    budget: int
    seed: int
    pad: int
    bos: int
    redraw: Callable[[int], EncodedPairs] | None = None

    def pairs_of(self, epoch: int) -> EncodedPairs:
        """The pairs that the rows of an epoch are rows of."""
        return self.pairs if self.redraw is None else self.redraw(epoch)

    def epoch(self, epoch: int) -> list[Rows]:
        """The batches of one pass over the data."""
        random = generator(self.seed, epoch)
        shuffled = random.permutation(len(self.pairs))
        pairs = self.pairs_of(epoch)
        batches = batch_rows(pairs.source.lengths, pairs.target.lengths, self.budget, shuffled)
        return [batches[index] for index in random.permutation(len(batches))]

    def batch(self, epoch: int, rows: Rows) -> PairBatch:
        """Those rows, padded."""
        return self.pairs_of(epoch).batch(rows, pad=self.pad, bos=self.bos)
