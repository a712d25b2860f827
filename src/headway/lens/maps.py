"""Attention weights as inline SVG: a map of source tokens against target tokens."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from headway.base.showing import Svg
from headway.lens.charts import colour
from headway.lens.labels import markup, number, short, visible, width


def map_svg(
    source: Sequence[str], target: Sequence[str], rows: Sequence[Sequence[float]], title: str
) -> Svg:
    """A small inline SVG of weights within 0..1, for a page; it takes the page's colours.

    A row a target token, a column a source token. Weights below 0.01 are left out and the others
    rounded to it, all cells of one weight being one path: 60 by 60 tokens are about 20 kB.
    """
    cell, size = 18, 12
    slant = math.radians(55)
    above = [short(visible(token)) for token in source]
    beside = [short(visible(token)) for token in target]
    S, T = len(above), len(beside)
    left = size * max(map(width, beside), default=0.0) + 10
    top = size * (math.sin(slant) * max(map(width, above), default=0.0) + 1)
    overhang = [i * cell + math.cos(slant) * size * width(text) for i, text in enumerate(above)]
    right = max(0.0, max(overhang, default=0.0) - S * cell) + cell
    W, H = left + S * cell + right, top + T * cell + 8
    parts = [
        f'<svg class="alignment" xmlns="http://www.w3.org/2000/svg" width="{W:.0f}" '
        f'height="{H:.0f}" viewBox="0 0 {W:.0f} {H:.0f}" role="img" font-size="{size}" '
        f'font-family="system-ui,sans-serif"><title>{markup(title)}</title>',
        f'<g transform="translate({number(left)} {number(top)})">',
        f'<rect width="{S * cell}" height="{T * cell}" fill="currentColor" opacity=".05"/>',
        f'<g style="fill:{colour(1)}">{_cells(rows, cell)}</g><g fill="currentColor">',
    ]
    for column, text in enumerate(above):
        place = f"translate({column * cell + cell // 2 + 3} -5) rotate(-55)"
        parts.append(f'<text transform="{place}">{markup(text)}</text>')
    for row, text in enumerate(beside):
        parts.append(f'<text x="-7" y="{row * cell + 13}" text-anchor="end">{markup(text)}</text>')
    return Svg("".join([*parts, "</g></g></svg>"]))


def _cells(rows: Sequence[Sequence[float]], cell: int) -> str:
    """One path for each weight in hundredths, of all the cells that have it."""
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, weights in enumerate(rows):
        for column, weight in enumerate(weights):
            places[round(100 * weight)].append((column * cell + 1, row * cell + 1))
    side = cell - 2
    return "".join(
        f'<path opacity="{percent / 100:g}" d="'
        + "".join(f"M{x} {y}h{side}v{side}h-{side}z" for x, y in cells)
        + '"/>'
        for percent, cells in sorted(places.items())
        if percent > 0
    )
