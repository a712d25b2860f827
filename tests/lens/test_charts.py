from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from headway.lens.charts import bars_svg, curves_svg

SVG = "{http://www.w3.org/2000/svg}"
NAN, INF = math.nan, math.inf


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lines(svg: str) -> list[list[tuple[float, float]]]:
    """The pixels of each curve."""
    found = []
    for node in ElementTree.fromstring(svg).iter(f"{SVG}path"):
        if node.get("fill") == "none":
            pairs = re.findall(r"([-\d.]+) ([-\d.]+)", node.get("d") or "")
            found.append([(float(x), float(y)) for x, y in pairs])
    return found


def test_axes_legend_and_curves_are_there() -> None:
    series = {"rnn": [(0.0, 4.0), (1000.0, 1.0)], "a<b": [(0.0, 5.0), (1000.0, 2.0)]}
    svg = curves_svg(series, x="step", y="NLL")
    shown = texts(svg)
    assert {"step", "NLL", "rnn", "a<b", "400", "1k", "5"} <= set(shown)
    first, second = lines(svg)
    assert first[0][0] < first[1][0]  # to the right
    assert first[0][1] < first[1][1]  # a falling loss falls
    assert second[0][1] < first[0][1]  # and a higher one is higher


def test_points_that_are_not_finite_are_skipped() -> None:
    points = [(0.0, 1.0), (1.0, NAN), (2.0, INF), (NAN, 1.0), (3.0, 2.0)]
    svg = curves_svg({"a": points}, x="x", y="y")
    assert len(lines(svg)[0]) == 2
    assert "nan" not in svg.lower().replace("nano", "")
    assert "inf" not in svg.lower()


def test_log_axis_puts_equal_ratios_at_equal_distances() -> None:
    points = [(0.0, 0.0), (1.0, 100.0), (2.0, 10.0), (3.0, 1.0), (4.0, -3.0)]
    (curve,) = lines(curves_svg({"a": points}, x="x", y="y", log_y=True))
    assert len(curve) == 3
    ys = [y for _, y in curve]
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2)


@pytest.mark.parametrize("log_y", [False, True])
@pytest.mark.parametrize("value", [0.0, 3.5, -2.0, 1e-12, 1e12])
def test_one_point_and_a_flat_line_are_drawn(value: float, log_y: bool) -> None:
    for points in ([(7.0, value)], [(7.0, value), (8.0, value)]):
        svg = curves_svg({"a": points}, x="x", y="y", log_y=log_y)
        assert ("no points yet" in texts(svg)) == (log_y and value <= 0)
        for x, y in itertools.chain(*lines(svg)):
            assert 0 <= x <= 480
            assert 0 <= y <= 270
    assert "<circle" in curves_svg({"a": [(7.0, 3.5)]}, x="x", y="y")


def test_nothing_to_draw_says_so() -> None:
    assert "no points yet" in texts(curves_svg({}, x="x", y="y"))
    assert "no points yet" in texts(curves_svg({"a": [(0.0, NAN)]}, x="x", y="y"))


def test_an_empty_series_keeps_its_colour_for_itself() -> None:
    some = [(0.0, 1.0), (1.0, 2.0)]
    svg = curves_svg({"none": [], "some": some}, x="x", y="y")
    assert "none" not in texts(svg)
    assert "var(--s1," in svg
    assert "var(--s0," not in svg


def test_a_long_curve_is_thinned_but_keeps_its_spikes() -> None:
    points = [(float(i), 1.0) for i in range(20_000)]
    points[7777] = (7777.0, 9.0)
    svg = curves_svg({"a": points}, x="x", y="y")
    (curve,) = lines(svg)
    assert len(svg) < 10_000
    assert min(y for _, y in curve) < min(y for _, y in curve[:3]) - 100
    assert curve == sorted(curve, key=lambda point: point[0])


def test_bars_stand_in_their_group_and_missing_ones_do_not() -> None:
    svg = bars_svg(["1–8", "9+"], {"a": [50.0, None], "b": [100.0, 0.0]}, y="Exact match, %")
    bars = list(ElementTree.fromstring(svg).iter(f"{SVG}rect"))
    heights = [float(bar.get("height", "")) for bar in bars]
    assert len(bars) == 3
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert {"1–8", "9+", "50.0", "100.0", "a", "b"} <= set(texts(svg))
