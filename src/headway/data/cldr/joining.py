"""Lists joined as CLDR says ("a, b et c"), and taken apart again.

Taking apart is what makes the corpus a function: a list is kept only where its text gives back
exactly the items that it was made of, so that no text can come from two lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from babel import Locale

STYLES: Final = ("standard", "or")
PARTS: Final = ("2", "start", "middle", "end")


@dataclass(frozen=True, kw_only=True)
class Style:
    """What stands between the items of a list: of two items, or of three and more."""

    pair: str
    start: str
    middle: str
    end: str

    def between(self, n_items: int) -> list[str]:
        """Give the n_items - 1 separators of a list, from left to right."""
        if n_items == 2:
            return [self.pair]
        return [self.start, *[self.middle] * (n_items - 3), self.end]

    def join(self, items: Sequence[str]) -> str:
        """Join at least two items."""
        return "".join(self.pieces(items))

    def pieces(self, items: Sequence[str]) -> list[str]:
        """Give items and separators in turn, items first and last."""
        pieces = [""] * (2 * len(items) - 1)
        pieces[::2] = items
        pieces[1::2] = self.between(len(items))
        return pieces


@dataclass(frozen=True)
class Joiner:
    """The list styles of a locale that its text alone can tell apart."""

    styles: dict[str, Style]

    @cached_property
    def _separator(self) -> re.Pattern[str]:
        found = {s for style in self.styles.values() for s in vars(style).values()}
        longest_first = sorted(found, key=lambda s: (-len(s), s))
        return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    @cached_property
    def _last(self) -> frozenset[str]:
        return frozenset(s for style in self.styles.values() for s in (style.pair, style.end))

    def take_apart(self, text: str) -> list[str]:
        """Cut a text at every separator: items and separators in turn."""
        return self._separator.split(text)

    def is_list(self, text: str) -> bool:
        """Say whether a text could be read as a list: each list has a last separator."""
        return any(piece in self._last for piece in self.take_apart(text)[1::2])

    def is_item(self, text: str) -> bool:
        """Say whether a text holds no separator at all, and so may stand in a list."""
        return len(self.take_apart(text)) == 1


def joiner_of(locale: Locale) -> Joiner:
    """Read a locale's list patterns; a style that reads like an earlier one is left out.

    Source: Unicode TR35, part 2, "List Patterns".
    """
    styles: dict[str, Style] = {}
    for name in STYLES:
        patterns = locale.list_patterns.get(name, {})
        parts = {part: _separator_of(patterns.get(part, "")) for part in PARTS}
        if not all(parts.values()):
            continue
        style = Style(
            pair=parts["2"], start=parts["start"], middle=parts["middle"], end=parts["end"]
        )
        taken = [s for other in styles.values() for s in (other.pair, other.end)]
        if style.pair not in taken and style.end not in taken:
            styles[name] = style
    return Joiner(styles)


def _separator_of(pattern: str) -> str:
    """Give what stands between {0} and {1}, or nothing where text stands outside them."""
    if pattern.startswith("{0}") and pattern.endswith("{1}"):
        return pattern[3:-3]
    return ""
