"""Text in pictures: safe to embed, visible, and about how wide it will be."""

from __future__ import annotations

import html
import unicodedata

_SIGNS = {"\n": "⏎", "\r": "␍", "\t": "⇥"}


def visible(text: str) -> str:
    """`text` on one line, with a sign for what would not be seen or breaks the file."""
    shown = "".join(_SIGNS.get(letter, letter) for letter in text)
    shown = "".join("�" if unicodedata.category(c) in ("Cc", "Cs", "Cn") else c for c in shown)
    return shown if shown.strip() else "␣" * max(len(shown), 1)


def short(text: str, limit: int = 18) -> str:
    """At most `limit` letters of `text`, ending in an ellipsis if some were left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def markup(text: str) -> str:
    """`text` escaped for HTML and SVG, in elements and in attributes."""
    return html.escape(visible(text), quote=True)


def width(text: str) -> float:
    """About how wide `text` is in a sans-serif type, in units of its size."""
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.58


def number(value: float) -> str:
    """A coordinate with one decimal at most, as short as it can be written."""
    return f"{value:.1f}".removesuffix(".0")
