"""What a training reads: batches of rows, in an order that is a pure function of seed and epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

Rows = npt.NDArray[np.int64]
_SEEDS = 2**64 - 1  # numpy takes no negative seed, torch does


class Batch(Protocol):
    """Some rows as tensors."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Part of the loss -> how many targets it has here; the first part is the main one."""

    @property
    def tokens(self) -> int:
        """Tokens by which the speed is told."""

    def to(self, device: torch.device) -> Self:
        """The same batch on a device."""


class Batches(ABC):
    """Which rows make which batch of an epoch, and what they are as tensors."""

    @abstractmethod
    def epoch(self, epoch: int) -> Sequence[Rows]:
        """The batches of one pass over the data: a pure function of the seed and `epoch`."""

    @abstractmethod
    def batch(self, epoch: int, rows: Rows) -> Any:
        """Rows of that epoch as a `Batch`."""

    def after(self, epoch: int, batch: int) -> Iterator[tuple[int, int, Rows]]:
        """Batches from batch `batch` of `epoch` on, without end, each with what comes next.

        Yields (epoch, batch) of the batch that follows, and the rows of this one.
        """
        while True:
            batches = self.epoch(epoch)
            while batch < len(batches):
                rows = batches[batch]
                batch += 1
                yield epoch, batch, rows
            epoch, batch = epoch + 1, 0


def generator(*seeds: int) -> np.random.Generator:
    """The random numbers of a seed and the places below it."""
    return np.random.Generator(np.random.PCG64([seed & _SEEDS for seed in seeds]))
