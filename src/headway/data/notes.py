"""What was noticed while reading: how often, and where first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_EXAMPLES = 5
_MOST_LETTERS = 80  # of an example
DUPLICATE = "seen before"
NEAR = "nearly the same as one before"
JUDGED = "in valid or test too"
LONG = "too many tokens"
ODD_SOURCE = "odd separators or NUL in the source"
ODD_TARGET = "odd separators or NUL in the target"
BREAKS = "line breaks inside, made spaces"
MOJIBAKE = "letters that a wrong encoding leaves (Ã©, U+FFFD)"
RATIO = "sides of very different length"


@dataclass(frozen=True)
class Example:
    """A line and some of what stands there."""

    line: int
    text: str


@dataclass
class Finding:
    """Something that was seen `count` times; `dropped` says whether its rows were left out."""

    kind: str
    dropped: bool
    count: int = 0
    examples: list[Example] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        """Once more."""
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            cut = text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"
            self.examples.append(Example(line, cut))

    def lines(self) -> str:
        """Where it was seen first, for messages."""
        numbers = ", ".join(str(example.line) for example in self.examples)
        return f"line{'s' * (len(self.examples) > 1)} {numbers}"

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        examples = [{"line": each.line, "text": each.text} for each in self.examples]
        return {"kind": self.kind, "count": self.count, "examples": examples}


class Notes:
    """Findings by kind, in the order in which they turned up."""

    def __init__(self) -> None:
        self.found: dict[str, Finding] = {}

    def add(self, kind: str, line: int, text: str, *, dropped: bool = False) -> None:
        """A row of that kind was seen."""
        self.found.setdefault(kind, Finding(kind, dropped)).add(line, text)

    def count(self, kind: str) -> int:
        """How often that was seen."""
        return self.found[kind].count if kind in self.found else 0

    def dropped(self) -> list[Finding]:
        """What rows were left out for."""
        return [finding for finding in self.found.values() if finding.dropped]

    def kept(self) -> list[Finding]:
        """What was noticed of rows that stay."""
        return [finding for finding in self.found.values() if not finding.dropped]
