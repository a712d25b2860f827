"""Charts as inline SVG: curves and grouped bars, in the page's own colours, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headway.base.showing import Svg
from headway.lens.labels import markup, number, width

# Of series 0 to 5. A page can set --s0 to --s5; without it these are legible on white and black.
COLOURS = ("#b06a00", "#2f78c4", "#1d8f73", "#b4436c", "#7d5fc0", "#6b7785")
_W, _H = 480, 270
_LEFT, _RIGHT, _BOTTOM = 46, 14, 38  # room for ticks and the name of the x axis
_SIZE = 12
_HALO = "paint-order:stroke;stroke:var(--card,transparent);stroke-width:3px"  # clear of grid lines
_MOST_DOTS = 15  # points a curve, on average, up to which each is shown
_MOST_POINTS = 300  # a curve of more is thinned: a screen shows no more, and pages stay small


def colour(index: int) -> str:
    """The CSS colour of the series number `index`."""
    place = index % len(COLOURS)
    return f"var(--s{place},{COLOURS[place]})"


@dataclass(frozen=True)
class _Axis:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def curves_svg(
    series: dict[str, list[tuple[float, float]]],
    *,
    x: str,
    y: str,
    log_y: bool = False,
    log_x: bool = False,
) -> Svg:
    """Named curves of (x, y) points on one pair of axes; `x` and `y` say what the axes are.

    Points that are not finite (or not above 0 where an axis is logarithmic) are left out; a curve
    without points keeps its colour for the next chart but is not in the legend. Long curves are
    thinned to the least and greatest values of each stretch.
    """
    curves = {
        name: [
            (float(a), float(b))
            for a, b in points
            if math.isfinite(a) and math.isfinite(b)
            if (b > 0 or not log_y) and (a > 0 or not log_x)
        ]
        for name, points in series.items()
    }
    top, legend = _legend(list(curves), [bool(points) for points in curves.values()])
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return _frame(f"{y}: no points", "", [_text(_W / 2, _H / 2, "no points yet", "middle")])
    x_low, x_high = _spread([a for a, _ in points], log=log_x)
    y_low, y_high = _spread([b for _, b in points], log=log_y)
    x_ticks = (_log_ticks if log_x else _ticks)(x_low, x_high)
    y_ticks = _log_ticks(y_low, y_high) if log_y else []
    if not log_y:  # a vertical axis from tick to tick reads more easily
        step = _step(y_low, y_high)
        y_low, y_high = math.floor(y_low / step) * step, math.ceil(y_high / step) * step
        y_ticks = _ticks(y_low, y_high)
    across = _Axis(x_low, x_high, _LEFT, _W - _RIGHT, log=log_x)
    up = _Axis(y_low, y_high, _H - _BOTTOM, top + 14, log=log_y)
    parts = [_grid(up, y_ticks), *(_tick_x(across(tick), _tick_label(tick)) for tick in x_ticks)]
    parts += [_text(_W - _RIGHT, _H - 5, x, "end"), legend]
    for index, curve in enumerate(curves.values()):
        if curve:
            places = [(across(a), up(b)) for a, b in _thin(sorted(curve))]
            parts.append(_curve(places, index, dots=len(points) <= _MOST_DOTS * len(curves)))
    return _frame(f"{y} against {x}", y, parts)


def bars_svg(groups: Sequence[str], series: dict[str, list[float | None]], *, y: str) -> Svg:
    """Percentages as bars, side by side in each group; None is a bar that is not there.

    `series` has one value for each of `groups`; each bar bears its value where there is room.
    """
    top, legend = _legend(list(series), [True] * len(series))
    up = _Axis(0.0, 100.0, _H - _BOTTOM, top + 18)
    parts = [_grid(up, [0.0, 25.0, 50.0, 75.0, 100.0]), legend]
    room = (_W - _LEFT - _RIGHT) / max(len(groups), 1)
    bar = min(34.0, 0.82 * room / max(len(series), 1))
    for place, group in enumerate(groups):
        middle = _LEFT + (place + 0.5) * room
        parts.append(_tick_x(middle, group))
        for index, values in enumerate(series.values()):
            value = values[place]
            if value is None or not math.isfinite(value):
                continue
            x, height = middle + (index - len(series) / 2) * bar, up(0) - up(value)
            parts.append(
                f'<rect x="{number(x + 1)}" y="{number(up(value))}" width="{number(bar - 2)}" '
                f'height="{number(max(height, 0.5))}" rx="1.5" style="fill:{colour(index)}"/>'
            )
            if bar >= 22:
                label = _text(x + bar / 2, up(value) - 4, f"{value:.1f}", "middle", size=10)
                parts.append(f'<g style="{_HALO}">{label}</g>')
    return _frame(y, y, parts, height=_H - 14)  # no name under the x axis


def _frame(title: str, y: str, parts: list[str], *, height: int = _H) -> Svg:
    """The SVG around a chart, with the name of its y axis above it."""
    head = (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_W} {height}" '
        f'role="img" font-size="{_SIZE}" font-family="system-ui,sans-serif">'
        f"<title>{markup(title)}</title>"
    )
    above = _text(0, 12, y, "start", strong=True) if y else ""
    return Svg("".join([head, above, *parts, "</svg>"]))


def _legend(names: list[str], shown: list[bool]) -> tuple[float, str]:
    """Where the legend ends, and the legend: a line in colour and a name, wrapped."""
    x, y, parts = 0.0, 32.0, []
    for index, name in enumerate(names):
        if not shown[index]:
            continue
        needed = 22 + _SIZE * width(name) + 14
        if x and x + needed > _W:
            x, y = 0.0, y + 17
        parts.append(
            f'<path d="M{number(x)} {number(y - 4)}h16" stroke-width="3" '
            f'style="stroke:{colour(index)}"/>{_text(x + 21, y, name, "start")}'
        )
        x += needed
    return (y if parts else 14.0), "".join(parts)


def _grid(up: _Axis, ticks: list[float]) -> str:
    """Horizontal lines with their values."""
    lines = "".join(f"M{_LEFT} {number(up(tick))}H{_W - _RIGHT}" for tick in ticks)
    labels = "".join(_text(_LEFT - 7, up(tick) + 4, _tick_label(tick), "end") for tick in ticks)
    return f'<path d="{lines}" stroke="currentColor" opacity=".16"/>{labels}'


def _tick_x(x: float, label: str) -> str:
    base = _H - _BOTTOM
    tick = f'<path d="M{number(x)} {base}v4" stroke="currentColor" opacity=".5"/>'
    return tick + _text(x, base + 17, label, "middle")


def _text(
    x: float, y: float, text: str, anchor: str, *, size: int = _SIZE, strong: bool = False
) -> str:
    looks = ' font-weight="600"' if strong else ' opacity=".78"'
    looks += f' font-size="{size}"' if size != _SIZE else ""
    place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
    return f'<text {place} fill="currentColor"{looks}>{markup(text)}</text>'


def _curve(places: list[tuple[float, float]], index: int, *, dots: bool) -> str:
    """A line through pixels, with a dot on each if wanted (or if there is only one)."""
    points = "L".join(f"{number(x)} {number(y)}" for x, y in places)
    line = (
        f'<path d="M{points}" fill="none" stroke-width="1.8" stroke-linejoin="round" '
        f'style="stroke:{colour(index)}"/>'
    )
    if not dots and len(places) > 1:
        return line
    marks = "".join(f'<circle cx="{number(x)}" cy="{number(y)}" r="2.6"/>' for x, y in places)
    return f'{line}<g style="fill:{colour(index)}">{marks}</g>'


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `_MOST_POINTS` points: of each stretch its least and its greatest, in order."""
    if len(points) <= _MOST_POINTS:
        return points
    kept: list[tuple[float, float]] = [points[0]]
    step = (len(points) - 2) / ((_MOST_POINTS - 2) // 2)
    for part in range((_MOST_POINTS - 2) // 2):
        stretch = points[1 + round(part * step) : 1 + round((part + 1) * step)]
        kept += sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])})
    return [*kept, points[-1]]


def _spread(values: list[float], *, log: bool = False) -> tuple[float, float]:
    """Least and greatest, moved apart if they are one."""
    low, high = min(values), max(values)
    if low < high:
        return low, high
    if log:
        return low / 2, high * 2
    return low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)


def _step(low: float, high: float) -> float:
    """A round distance (1, 2 or 5 times a power of ten) that divides the range by about 4."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    return power * next(m for m in (1, 2, 5, 10) if (high - low) / (m * power) <= 5)


def _ticks(low: float, high: float) -> list[float]:
    """Round values within the range."""
    step = _step(low, high)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [tick * step for tick in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within the range, with 2 and 5 between them where there are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    found = [m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high]
    return found if len(found) > 1 else [low, high]


def _tick_label(value: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}"
