"""Pictures of alignments, and beside them the charts of a report.

Pictures for files are drawn by matplotlib without its global state; those for a page are small
inline SVG that take their colours from the page.
"""

from __future__ import annotations

import functools
import io
import math
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.errors import UserError
from headway.base.files import write_atomic
from headway.base.showing import Svg
from headway.lens.alignment import Alignment
from headway.lens.charts import bars_svg, curves_svg
from headway.lens.labels import short, visible
from headway.lens.maps import map_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["alignment_svg", "bars_svg", "curves_svg", "draw_alignment"]

_CELL_IN = 0.3  # side of a cell in inches, while the picture fits into _SIDE_IN
_SIDE_IN = 18.0
_PITCH_IN = 0.12  # labels closer than this cannot be read: every second one is left out, and so on
_DPI = 150
_FALLBACKS = (  # for letters that DejaVu lacks, those that are installed
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
)


def draw_alignment(alignment: Alignment, path: Path) -> None:
    """Draw an alignment map as PNG or SVG, by the suffix of `path`.

    A row a target token (left), a column a source token (above), white for 0 and dark blue for 1.
    The picture grows with the tokens up to 18 inches a side; beyond about 150 tokens a side, only
    every second label is written, and so on. Raises UserError for another suffix.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        todo = "let it end in .png or .svg"
        raise UserError("pictures are written as PNG or SVG", where=str(path), todo=todo)
    from matplotlib.figure import Figure

    T, S = max(len(alignment.target), 1), max(len(alignment.source), 1)
    cell = min(_CELL_IN, _SIDE_IN / max(T, S))
    figure = Figure(figsize=(S * cell, T * cell), dpi=_DPI, facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    _fill(axes, alignment, cell)
    content = io.BytesIO()
    with warnings.catch_warnings():  # a letter no installed font has is drawn as a box: enough said
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure.savefig(
            content,
            format=kind,
            bbox_inches="tight",
            pad_inches=0.15,
            metadata={"Date": None} if kind == "svg" else None,
        )
    write_atomic(path, content.getvalue())


def _fill(axes: Axes, alignment: Alignment, cell: float) -> None:
    """Cells, labels, title; `cell` is the side of one in inches."""
    rows = alignment.rows()
    if rows and rows[0]:
        axes.imshow(rows, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    every = max(1, math.ceil(_PITCH_IN / cell))
    size = min(12.0, 72 * 0.55 * cell * every)
    fonts: dict[str, Any] = {"family": _families(), "parse_math": False}  # $ is money here
    axes.tick_params(length=0, pad=3, top=False, labeltop=True, bottom=False, labelbottom=False)
    columns = range(0, len(alignment.source), every)
    rows_named = range(0, len(alignment.target), every)
    above = [short(visible(alignment.source[i]), 28) for i in columns]
    beside = [short(visible(alignment.target[i]), 28) for i in rows_named]
    axes.set_xticks(columns, above, rotation=60, ha="left", va="bottom", rotation_mode="anchor")
    axes.set_yticks(rows_named, beside)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(size=size, **fonts)
    if cell > _PITCH_IN and rows:
        T, S = len(alignment.target), len(alignment.source)
        lines: dict[str, Any] = {"color": "#e8ecf1", "linewidth": 0.6}
        axes.vlines([i + 0.5 for i in range(S - 1)], -0.5, T - 0.5, **lines)
        axes.hlines([i + 0.5 for i in range(T - 1)], -0.5, S - 0.5, **lines)
    axes.spines[:].set_color("#9aa5b1")
    letters = max(44, int(cell * len(alignment.source) / 0.085))
    title = textwrap.fill(visible(alignment.title), letters) if alignment.title else ""
    axes.set_title(title, loc="left", pad=8, size=11.0, **fonts)


@functools.cache
def _families() -> list[str]:
    """DejaVu Sans, which comes with matplotlib and has all Latin accents, then what is there."""
    from matplotlib.font_manager import fontManager

    installed = {entry.name for entry in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in _FALLBACKS if name in installed)]


def alignment_svg(alignment: Alignment) -> Svg:
    """A small inline SVG of an alignment, for a page; it takes the page's colours."""
    return map_svg(alignment.source, alignment.target, alignment.rows(), alignment.title)
