"""Where a training stands: everything that must survive for it to go on exactly."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass
class Window:
    """Sums since the last log line, so that a logged loss is the mean over all of them."""

    objective: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    gradient_norm: float = 0.0
    seconds: float = 0.0
    steps: int = 0


@dataclass
class TrainState:
    """Position in steps and data, and what has been seen so far.

    `epoch` and `batch` name the next batch. The randomness needs no state: it is a function of
    (seed, step, micro-batch, place). `stale` counts the evaluations since the best.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    window: Window = field(default_factory=Window)

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """Back from `to_table`."""
        return cls(**{**table, "window": Window(**table["window"])})
