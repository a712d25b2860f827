"""Pictures of several panels: curves and bars, each value with its range over the seeds."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.errors import UserError
from headway.base.files import write_atomic
from headway.lens.charts import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = "osD^vP"
_PANEL_IN = ((4.5, 3.3), (3.7, 3.1))  # in two columns, and in three
_DPI = 130
_LETTERS = 36  # below a panel, of the names of groups; more are written aslant
_UNNAMED = "#5b7083"
_FONT = "DejaVu Sans"
_FALLBACK = "Verdana, sans-serif"  # for readers without it: its letters are as wide
_LOOKS: Any = {
    "font.family": [_FONT],
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a file's name may have a $
    "svg.hashsalt": "headway",
}
_FONTS = (f"'{_FONT}'".encode(), f"'{_FONT}', {_FALLBACK}".encode())


@dataclass(frozen=True)
class Value:
    """A mean with the least and the greatest of what it is the mean of."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Curves:
    """A panel of named curves: values at places on an axis; the range is a band.

    `straight` are thin dashed lines for comparison (a theory, a chance level). The x axis has its
    ticks at the points with `log_x`, or `at_points`.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, Value]]]
    log_x: bool = False
    at_points: bool = False
    log_y: bool = False
    percent: bool = False
    straight: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Bars:
    """A panel of bars, side by side in each group; None is a bar that is not there."""

    title: str
    y: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[Value | None]]
    x: str = ""
    log_y: bool = False
    percent: bool = False


Panel = Curves | Bars


def picture_kind(path: Path) -> str:
    """What a picture of that name is written as: "png" or "svg". UserError for another suffix."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        todo = "let it end in .png or .svg"
        raise UserError("pictures are written as PNG or SVG", where=str(path), todo=todo)
    return kind


def draw_panels(panels: Sequence[Panel], path: Path, *, title: str, below: str = "") -> None:
    """Draw panels side by side under one title and one legend, as PNG or SVG by the suffix.

    A name has one colour and one mark in all panels; one that is "" is not in the legend. `below`
    is a small line under them (how many seeds). The same panels give the same bytes. Raises
    UserError for another suffix.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.series if name))

    def draw(figure: Figure, places: Sequence[Axes]) -> None:
        for axes, panel in zip(places, panels, strict=True):
            _panel(axes, panel, names)
        _around(figure, names, title, below)

    draw_figure(len(panels), path, draw)


def draw_figure(panels: int, path: Path, draw: Callable[[Figure, Sequence[Axes]], None]) -> None:
    """Have `draw` fill so many panels, side by side in our looks, and write them as PNG or SVG."""
    kind = picture_kind(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_LOOKS):
        columns = 2 if panels in (2, 4) else min(3, panels)
        rows = -(-panels // columns)
        wide, high = _PANEL_IN[columns > 2][0] * columns, _PANEL_IN[columns > 2][1] * rows + 0.9
        figure = Figure((wide, high), _DPI, facecolor="white")
        places = figure.subplots(rows, columns, squeeze=False).flatten()
        for unused in places[panels:]:
            unused.remove()
        draw(figure, list(places[:panels]))
        content = io.BytesIO()
        made = {"Date": None} if kind == "svg" else None
        figure.savefig(content, format=kind, metadata=made)
    write_atomic(path, content.getvalue().replace(*_FONTS) if kind == "svg" else content.getvalue())


def _around(figure: Figure, names: list[str], title: str, below: str) -> None:
    """Title, legend and the line below, and the panels in what room is left."""
    from matplotlib.lines import Line2D

    high = float(figure.get_figheight())
    figure.text(0.012, 1 - 0.27 / high, title, size=12.5, weight="bold")
    top = 0.42
    if len(names) > 1:
        marks = [Line2D([], [], **_style(names, name), linewidth=2.0) for name in names]
        figure.legend(
            marks,
            names,
            loc="upper left",
            bbox_to_anchor=(0.003, 1 - 0.33 / high),
            ncols=len(names),
            frameon=False,
            handlelength=1.6,
            columnspacing=1.6,
        )
        top = 0.72
    if below:
        figure.text(0.012, 0.08 / high, below, size=8.0, color="#5b6572")
    room = (0.0, 0.25 / high if below else 0.0, 1.0, 1 - top / high)
    figure.tight_layout(rect=room, w_pad=2.0, h_pad=2.0)


def _panel(axes: Axes, panel: Panel, names: list[str]) -> None:
    axes.set_title(panel.title, loc="left", size=10.5, pad=8)
    axes.set_ylabel(panel.y)
    axes.set_xlabel(panel.x)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="#d8dde3", linewidth=0.7)
    if panel.log_y:
        axes.set_yscale("log")
    if isinstance(panel, Curves):
        _curves(axes, panel, names)
    else:
        _bars(axes, panel, names)
    if panel.log_y:
        _log_ticks(axes)
    if panel.percent:
        axes.set_ylim(0.0, 104.0)
    elif not panel.log_y and axes.get_ylim()[0] > 0.0:
        axes.set_ylim(bottom=0.0)  # a difference looks as large as it is


def _log_ticks(axes: Axes) -> None:
    """Plain numbers, and 2 and 5 between the powers of ten where these are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(10.0, (1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axes.yaxis.minorticks_off()


def _curves(axes: Axes, panel: Curves, names: list[str]) -> None:
    if panel.log_x:
        axes.set_xscale("log", base=2)
    if panel.log_x or panel.at_points:
        ticks = sorted({x for points in panel.series.values() for x, _ in points})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.minorticks_off()
    for name, points in panel.straight.items():
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color="#5b6572",
            linewidth=1.0,
            linestyle=(0, (4, 3)),
        )
        axes.annotate(name, points[-1], (-4, 4), textcoords="offset points", ha="right", size=8.5)
    for name, found in panel.series.items():
        finite = [(x, value) for x, value in found if math.isfinite(value.mean)]
        style = _style(names, name)
        if len(finite) > 20:
            style["marker"] = ""
        places = [x for x, _ in finite]
        axes.plot(places, [value.mean for _, value in finite], **style, linewidth=1.8)
        low, high = [value.low for _, value in finite], [value.high for _, value in finite]
        axes.fill_between(places, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _bars(axes: Axes, panel: Bars, names: list[str]) -> None:
    shown = list(panel.series)
    wide = 0.8 / max(1, len(shown))
    digits = 3 if len(shown) * len(panel.groups) <= 6 else 2  # where there is room
    for index, name in enumerate(shown):
        for group, value in enumerate(panel.series[name]):
            if value is None or not math.isfinite(value.mean):
                continue
            place = group + (index - (len(shown) - 1) / 2) * wide
            axes.bar(place, value.mean, 0.92 * wide, color=_style(names, name)["color"])
            if value.high > value.low:
                ends = [[value.mean - value.low], [value.high - value.mean]]
                axes.errorbar(place, value.mean, ends, color="#1f2933", linewidth=1.1, capsize=2.5)
            label = f"{value.mean:.0f}" if panel.percent else f"{value.mean:.{digits}g}"
            axes.annotate(
                label, (place, value.high), (0, 3), textcoords="offset points", ha="center", size=8
            )
    axes.set_xticks(range(len(panel.groups)), panel.groups)
    axes.tick_params(axis="x", length=0)
    if sum(max(map(len, group.split("\n"))) for group in panel.groups) > _LETTERS:
        for tick in axes.get_xticklabels():
            tick.set(rotation=35, ha="right", rotation_mode="anchor")


def _style(names: list[str], name: str) -> dict[str, Any]:
    if not name:
        return {"color": _UNNAMED, "marker": _MARKS[0], "markersize": 4.5}
    place = names.index(name)
    mark = _MARKS[place % len(_MARKS)]
    return {"color": COLOURS[place % len(COLOURS)], "marker": mark, "markersize": 4.5}
