"""Where a training stands: everything that must survive for it to go on exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass
class Window:
    """Sums since the last log line, so that a logged loss is the mean over all of them.

    `nll` and `targets` are those of the main part of the loss, `others` each further part's own;
    `objective` is to be divided by `targets` too. `tokens` are what the speed is told by.
    """

    objective: float = 0.0
    nll: float = 0.0
    targets: int = 0
    tokens: int = 0
    gradient_norm: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    others: dict[str, list[float]] = field(default_factory=dict)

    def add(
        self,
        objective: float,
        nlls: Mapping[str, tuple[float, int]],
        tokens: int,
        gradient_norm: float,
        seconds: float,
    ) -> None:
        """A step's sums; `nlls` are by part of the loss, with their counts, the main one first."""
        (nll, targets), *_ = nlls.values()
        self.objective += objective
        self.nll += nll
        self.targets += targets
        self.tokens += tokens
        self.gradient_norm += gradient_norm
        self.seconds += seconds
        self.steps += 1
        for part, sums in list(nlls.items())[1:]:
            known = self.others.setdefault(part, [0.0, 0])
            for index, value in enumerate(sums):
                known[index] += value


@dataclass
class TrainState:
    """Position in steps and data, and what has been seen so far.

    `epoch` and `batch` name the next batch. The randomness needs no state: it is a function of
    (seed, step, micro-batch, place). `stale` counts the evaluations since the best.
    `best_digest` is of the best weights, on the rank that writes them.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0
    best: float | None = None
    best_step: int = 0
    best_digest: str | None = None
    stale: int = 0
    window: Window = field(default_factory=Window)

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """Back from `to_table`."""
        window = {"targets": table["window"]["tokens"], **table["window"]}  # one number in format 1
        return cls(**{**table, "window": Window(**window)})
