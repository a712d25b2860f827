"""The preparation report: what became of a part's rows, and what its tokens look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headway.data.notes import Finding


@dataclass(frozen=True)
class SideReport:
    """The tokens of one side, its end symbols included but in `unknown`.

    `tokens` are those of the pairs that were kept. `lengths` has the pairs by their tokens here,
    too long ones included: entry i counts those of 2^i to 2^(i+1) - 1 tokens. `unknown` is a share
    from 0 to 1, `examples` what the unknown tokens were in the text, and how often among the texts
    that were looked at.
    """

    language: str
    tokens: int
    longest: int
    lengths: tuple[int, ...]
    unknown: float
    examples: tuple[tuple[str, int], ...]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "language": self.language,
            "tokens": self.tokens,
            "longest": self.longest,
            "lengths": {lengths_label(i): count for i, count in enumerate(self.lengths)},
            "unknown": self.unknown,
            "unknown_examples": dict(self.examples),
        }


@dataclass(frozen=True)
class PreparationReport:
    """What became of the `read` rows of a part; `max_tokens` is the limit for a side.

    `dropped` says why rows were left out: `read` less their counts is `kept`. `noticed` is about
    rows that stay.
    """

    part: str
    origin: str
    read: int
    kept: int
    max_tokens: int
    dropped: tuple[Finding, ...]
    noticed: tuple[Finding, ...]
    source: SideReport
    target: SideReport

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "part": self.part,
            "origin": self.origin,
            "read": self.read,
            "kept": self.kept,
            "max_tokens": self.max_tokens,
            "dropped": [finding.to_table() for finding in self.dropped],
            "noticed": [finding.to_table() for finding in self.noticed],
            "source": self.source.to_table(),
            "target": self.target.to_table(),
        }


def lengths_label(power: int) -> str:
    """Which lengths an entry of `SideReport.lengths` counts: "1", "2-3", "4-7", ..."""
    low, high = 2**power, 2 ** (power + 1) - 1
    return str(low) if low == high else f"{low}-{high}"
