"""Which source token each target token looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headway.base.errors import UserError


@dataclass(frozen=True)
class Alignment:
    """Attention weights with the tokens they belong to.

    `weights` is (T, S), a row a target token and a column a source token: nested lists, a NumPy
    array or a tensor. Raises UserError if its shape and the tokens disagree.
    """

    source: list[str]
    target: list[str]
    weights: Any
    title: str

    def __post_init__(self) -> None:
        rows = self.rows()
        widths = {len(row) for row in rows} or {len(self.source)}
        if len(rows) != len(self.target) or widths != {len(self.source)}:
            raise UserError(
                f"weights of {len(rows)} rows and {'/'.join(map(str, sorted(widths)))} columns "
                f"for {len(self.target)} target and {len(self.source)} source tokens",
                where=self.title,
                todo="give one row a target token and one column a source token",
            )

    def rows(self) -> list[list[float]]:
        """The weights as lists, within 0..1; what is not a number counts as 0."""
        plain = self.weights.tolist() if hasattr(self.weights, "tolist") else self.weights
        return [[_within(float(weight)) for weight in row] for row in plain]


def _within(weight: float) -> float:
    return min(max(weight, 0.0), 1.0) if weight == weight else 0.0
