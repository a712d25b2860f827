"""Rows that are read whole, padded, with others of like length: little padding, still random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headway.batches.order import Batches, Rows, generator
from headway.batches.packed import PackedBatch
from headway.batches.pairs import EncodedSide

WINDOW = 32  # batches: of so many rows drawn by lot, those of like length go together


def like_lengths(lengths: Rows, together: int, order: Rows) -> list[Rows]:
    """Batches of `together` rows: the rows as `order` has them, sorted by length in windows."""
    batches = []
    for begin in range(0, len(order), WINDOW * together):
        window = order[begin : begin + WINDOW * together]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches += [window[place : place + together] for place in range(0, len(window), together)]
    return batches


@dataclass(frozen=True)
class FramedRows:
    """Texts, or pairs of texts, in their frame: ids, and of which text each is."""

    ids: EncodedSide
    segments: EncodedSide

    def __len__(self) -> int:
        return len(self.ids.lengths)

    def pad(self, rows: Rows, pad: int) -> tuple[Tensor, Tensor, Tensor]:
        """Those rows as ids, which are real, and segments: (B, T) each."""
        ids, real = self.ids.pad(rows, pad)
        return ids, real, self.segments.pad(rows, 0)[0]


class LabelBatch(NamedTuple):
    """Padded rows, and the label of each: the number of a class, or any number."""

    ids: Tensor  # (B, T)
    real: Tensor  # (B, T)
    segments: Tensor  # (B, T)
    labels: Tensor  # (B,)

    @property
    def counts(self) -> dict[str, int]:
        """The rows."""
        return {"row": len(self.labels)}

    @property
    def tokens(self) -> int:
        """The real tokens."""
        return int(self.real.sum())

    def to(self, device: torch.device) -> LabelBatch:
        """The same batch on a device."""
        return LabelBatch(*(part.to(device) for part in self))


@dataclass(frozen=True)
class LabelBatches(Batches):
    """Labelled rows; `labels` are int64 for classes and float32 for numbers."""

    rows: FramedRows
    labels: npt.NDArray[np.int64] | npt.NDArray[np.float32]
    together: int
    seed: int
    pad: int

    def epoch(self, epoch: int) -> list[Rows]:
        """The batches of one pass over the data."""
        return shuffled(self.rows.ids.lengths, self.together, self.seed, epoch)

    def batch(self, epoch: int, rows: Rows) -> LabelBatch:
        """Those rows, padded."""
        return LabelBatch(*self.rows.pad(rows, self.pad), torch.from_numpy(self.labels[rows]))


@dataclass(frozen=True)
class AnswerBatches(Batches):
    """Rows of prompts and answers; `learnt` is 1 for the ids that are to be predicted."""

    ids: EncodedSide
    learnt: EncodedSide
    together: int
    seed: int
    pad: int

    def epoch(self, epoch: int) -> list[Rows]:
        """The batches of one pass over the data."""
        return shuffled(self.ids.lengths, self.together, self.seed, epoch)

    def batch(self, epoch: int, rows: Rows) -> PackedBatch:
        """Those rows, padded at their ends, where nothing that counts looks."""
        ids, _ = self.ids.pad(rows, self.pad)
        learnt, _ = self.learnt.pad(rows, 0)
        following, predicted = ids[:, 1:].contiguous(), learnt[:, 1:] == 1
        return PackedBatch(ids[:, :-1].contiguous(), following, predicted, None)


def shuffled(lengths: Rows, together: int, seed: int, epoch: int) -> list[Rows]:
    """The batches of an epoch: a pure function of the seed and `epoch`."""
    random = generator(seed, epoch)
    batches = like_lengths(lengths, together, random.permutation(len(lengths)))
    return [batches[place] for place in random.permutation(len(batches))]
