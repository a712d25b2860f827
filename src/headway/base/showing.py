"""How objects show themselves in a notebook: small HTML and SVG in which every text is escaped."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PAPER = "background:#fff;color:#1f2933;max-width:100%;height:auto"
_CHART_PX = 480  # of a picture that has no width of its own
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_EDGE = "border-bottom:1px solid #8886"


def escaped(text: str) -> str:
    """`text` for HTML, in elements and in attributes; what UTF-8 cannot hold becomes "?"."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"), quote=True)


class Svg(str):
    """A picture that shows itself in a notebook; as a text it takes the colours of its page."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        """Dark on white, because a notebook shows it where no colours reach it; of a fixed size."""
        head, end, rest = self.partition(">")
        box = _VIEW_BOX.search(head)
        if box is not None and " width=" not in head:
            high = _CHART_PX * float(box[2]) / float(box[1])
            head = f'{head} width="{_CHART_PX}" height="{high:.0f}"'
        return f'{head} style="{_PAPER}"{end}{rest}'


@dataclass(frozen=True, repr=False)
class Table:
    """Rows below a head: a table in a notebook, columns of text elsewhere.

    Numbers stand right, floats with one decimal; None and what is not a number show as "–".
    """

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    def __repr__(self) -> str:
        lines = [list(self.head), *([_text(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = [False] * len(widths) if not self.rows else list(map(_is_number, self.rows[-1]))
        said = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, *said] if self.caption else said)

    def _repr_html_(self) -> str:
        right = list(map(_is_number, self.rows[-1])) if self.rows else [False] * len(self.head)
        head = "".join(map(_cell, ["th"] * len(right), self.head, right))
        rows = "".join(
            f"<tr>{''.join(map(_cell, ['td'] * len(row), map(_text, row), map(_is_number, row)))}"
            "</tr>"
            for row in self.rows
        )
        above = f'<caption style="text-align:left">{escaped(self.caption)}</caption>'
        return (
            f'<table style="border-collapse:collapse">{above if self.caption else ""}'
            f'<thead><tr style="{_EDGE}">{head}</tr></thead><tbody>{rows}</tbody></table>'
        )


@dataclass(frozen=True)
class SideBySide:
    """Several things next to one another, each below its name, as far as there is room."""

    parts: Mapping[str, object]

    def _repr_html_(self) -> str:
        shown = "".join(
            f'<figure style="margin:0"><figcaption style="font-weight:600;margin-bottom:4px">'
            f"{escaped(name)}</figcaption>{html_of(part)}</figure>"
            for name, part in self.parts.items()
        )
        return (
            '<div style="display:flex;flex-wrap:wrap;gap:12px 32px;align-items:flex-start">'
            f"{shown}</div>"
        )


def html_of(thing: object) -> str:
    """How an object shows itself on a page, or its escaped repr if it has no other way."""
    for name in ("_repr_html_", "_repr_svg_"):
        show = getattr(thing, name, None)
        if show is not None:
            return str(show())
    return f"<pre>{escaped(repr(thing))}</pre>"


def _is_number(cell: object) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _text(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _cell(tag: str, text: str, number: bool) -> str:
    looks = f"text-align:{'right' if number else 'left'};padding:3px 12px 3px 0"
    if not number:
        looks += ";white-space:pre-wrap;max-width:34em;overflow-wrap:anywhere"
    return f'<{tag} style="{looks}">{escaped(text)}</{tag}>'
