from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.lens.figures import Bars, Curves, Panel, Value, draw_panels

SVG = "{http://www.w3.org/2000/svg}"


def value(mean: float, spread: float = 0.0) -> Value:
    return Value(mean, mean - spread, mean + spread)


CURVES = Curves(
    title="Entropy",
    x="d_k",
    y="nats",
    series={
        "plain": [(4.0, value(3.0, 0.5)), (64.0, value(1.0)), (256.0, value(math.nan))],
        "scaled": [(4.0, value(3.2)), (64.0, value(3.1))],
    },
    log_x=True,
    straight={"theory": [(4.0, 2.0), (64.0, 2.0)]},
)
BARS = Bars(
    title="Exact match",
    y="%",
    groups=["short", "long"],
    series={"scaled": [value(90.0, 5.0), None], "third": [value(40.0), value(12.0)]},
    percent=True,
)


def drawn(tmp_path: Path, panels: list[Panel], below: str = "") -> tuple[ElementTree.Element, str]:
    path = tmp_path / "picture.svg"
    draw_panels(panels, path, title="Two & <two>", below=below)
    tree = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return tree, "\n".join(node.text or "" for node in tree.iter(f"{SVG}text"))


def test_a_picture_says_what_it_shows(tmp_path: Path) -> None:
    _, said = drawn(tmp_path, [CURVES, BARS], below="3 seeds")
    for text in ("Two & <two>", "Entropy", "d_k", "nats", "Exact match", "%", "short", "long"):
        assert text in said.splitlines()
    for text in ("theory", "3 seeds", "64"):
        assert text in said.splitlines()
    # one legend for both panels, each name in it once
    assert [said.splitlines().count(name) for name in ("plain", "scaled", "third")] == [1, 1, 1]
    assert {"90", "40", "12"} <= set(said.splitlines())


def test_a_dollar_is_no_formula(tmp_path: Path) -> None:
    """Names of files and runs come into pictures."""
    named = Bars(title="q$_$", y="$", groups=["a$^$"], series={"$\\x$": [value(1.0)]})
    _, said = drawn(tmp_path, [named], below="$_$")
    assert {"q$_$", "a$^$", "$_$"} <= set(said.splitlines())


def test_a_name_has_one_colour_in_all_panels(tmp_path: Path) -> None:
    apart = Bars(title="", y="", groups=["g"], series={"scaled": [value(1.0)]})
    colours = {}
    for name, panels in (("alone", [apart]), ("second", [CURVES, apart])):
        tree, _ = drawn(tmp_path, list(panels))
        axes = [node for node in tree.iter(f"{SVG}g") if (node.get("id") or "").startswith("axes")]
        styles = [node.get("style") or "" for node in axes[-1].iter(f"{SVG}path")]
        fills = [found[1] for style in styles if (found := re.search(r"fill: (#\w+)", style))]
        colours[name] = fills
    legend = "#2f78c4"  # the second colour, because "scaled" is the second name
    assert legend in colours["second"]
    assert legend not in colours["alone"]


def test_a_log_axis_has_plain_numbers(tmp_path: Path) -> None:
    points = [(1.0, value(0.3)), (2.0, value(4.0))]
    few = Curves(title="t", x="x", y="y", series={"a": points}, log_y=True)
    _, said = drawn(tmp_path, [few])
    assert {"0.5", "1", "2"} <= set(said.splitlines())
    wide = Curves(title="t", x="x", y="y", series={"a": [*points, (3.0, value(9e3))]}, log_y=True)
    _, said = drawn(tmp_path, [wide])
    assert {"1", "10", "100", "1000"} <= set(said.splitlines())


def test_one_unnamed_series_has_no_legend(tmp_path: Path) -> None:
    alone = Bars(title="t", y="%", groups=["a", "b"], series={"": [value(1.0), value(2.0)]})
    tree, _ = drawn(tmp_path, [alone])
    assert not [node for node in tree.iter(f"{SVG}g") if "legend" in (node.get("id") or "")]
    tree, _ = drawn(tmp_path, [CURVES])
    assert [node for node in tree.iter(f"{SVG}g") if "legend" in (node.get("id") or "")]


def test_the_same_panels_give_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("a.svg", "b.svg"):
        draw_panels([CURVES, BARS], tmp_path / name, title="x")
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    draw_panels([BARS], tmp_path / "c.png", title="x")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="PNG or SVG"):
        draw_panels([BARS], tmp_path / "a.gif", title="x")
