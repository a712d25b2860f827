from __future__ import annotations

import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from headway.base.errors import UserError
from headway.lens.alignment import Alignment
from headway.lens.plots import alignment_svg, draw_alignment

SVG = "{http://www.w3.org/2000/svg}"


def diagonal(n: int, *, title: str = "a title") -> Alignment:
    return Alignment([f"s{i}" for i in range(n)], [f"t{i}" for i in range(n)], np.eye(n), title)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_weights_are_brought_within_0_and_1() -> None:
    weights = [[-0.5, 0.25, 1.5], [float("nan"), 0.0, 1.0]]
    expected = [[0.0, 0.25, 1.0], [0.0, 0.0, 1.0]]
    for given in (weights, np.array(weights), torch.tensor(weights)):
        assert Alignment(["a", "b", "c"], ["x", "y"], given, "").rows() == expected


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(UserError, match=r"1 rows and 2 columns for 2 target and 1 source"):
        Alignment(["a"], ["x", "y"], [[0.5, 0.5]], "")


def test_picture_has_a_row_a_target_and_a_column_a_source(tmp_path: Path) -> None:
    weights = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    draw_alignment(Alignment(list("abcd"), list("xy"), weights, ""), tmp_path / "wide.png")
    pixels = np.asarray(Image.open(tmp_path / "wide.png").convert("RGB")).astype(int)
    dark = (pixels[..., 2] - pixels[..., 0] > 60) & (pixels.sum(-1) < 330)
    rows, columns = np.nonzero(dark)
    first, last = columns < np.median(columns), columns > np.median(columns)
    assert rows[first].max() < rows[last].min()  # the first target row is above
    assert columns.max() - columns.min() > 3 * (rows.max() - rows.min()) / 2  # 4 columns, 2 rows


def test_picture_grows_with_the_tokens_and_not_for_ever(tmp_path: Path) -> None:
    sizes = {}
    for n in (3, 60, 150):
        draw_alignment(diagonal(n), tmp_path / f"{n}.png")
        sizes[n] = Image.open(tmp_path / f"{n}.png").size
    assert sizes[60][0] > 60 * 40  # 40 pixels a token hold its letters
    assert sizes[60][0] > 5 * sizes[3][0]
    assert sizes[150][0] < 1.2 * sizes[60][0]


def test_any_text_is_drawn_without_crash_or_warning(tmp_path: Path) -> None:
    words = ["$\\frac$", "$5 and $6", "<s>", "été", "你好", "🙂", "a\nb", "\x00", "", " ", "x_1^2"]
    alignment = Alignment(words, words, np.eye(len(words)), "$\\broken{ " + "long " * 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_alignment(alignment, tmp_path / "odd.png")
        draw_alignment(alignment, tmp_path / "odd.svg")
    assert (tmp_path / "odd.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(tmp_path / "odd.svg")
    draw_alignment(Alignment([], [], [], "nothing"), tmp_path / "empty.png")


def test_only_png_and_svg_are_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="PNG or SVG"):
        draw_alignment(diagonal(2), tmp_path / "a.jpeg")
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_pyplot_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from headway.lens.plots import Alignment, draw_alignment\n"
        "assert 'matplotlib' not in sys.modules\n"
        "draw_alignment(Alignment(['a'], ['b'], [[1.0]], 't'), Path('a.png'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_svg_leaves_faint_cells_out_and_rounds_the_rest() -> None:
    weights = [[0.004, 0.123456, 0.123999], [1.0, 0.0, 0.0]]
    svg = alignment_svg(Alignment(["a", "b", "c"], ["x", "y"], weights, "t"))
    cells = {
        float(node.get("opacity", "")): (node.get("d") or "").count("M")
        for node in ElementTree.fromstring(svg).iter(f"{SVG}path")
    }
    assert cells == {0.12: 2, 1.0: 1}


def test_svg_puts_targets_left_and_sources_above() -> None:
    svg = alignment_svg(Alignment(["s0", "s1"], ["t0", "t1", "t2"], np.eye(3, 2), "title"))
    nodes = list(ElementTree.fromstring(svg).iter(f"{SVG}text"))
    above = [node.text for node in nodes if "rotate" in node.get("transform", "")]
    beside = [node.text for node in nodes if node.get("text-anchor") == "end"]
    assert (above, beside) == (["s0", "s1"], ["t0", "t1", "t2"])
    down = [float(node.get("y", "")) for node in nodes if node.get("text-anchor") == "end"]
    assert down == sorted(down)


def test_svg_escapes_every_text() -> None:
    words = ["<s>", "<script>alert(1)</script>", 'a"b', "a&b", "\x00", "\ud800", "\n"]
    svg = alignment_svg(Alignment(words, words, np.eye(len(words)), "</title><script>"))
    assert "<script" not in svg
    svg.encode("utf-8")
    assert "<s>" in texts(svg)
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == "</title><script>"


def test_svg_of_512_tokens_is_small_whatever_the_weights() -> None:
    words = [f"word{i}" for i in range(512)]
    spread = np.random.default_rng(1).dirichlet(np.full(512, 0.1), 512)
    assert len(alignment_svg(Alignment(words, words, spread, ""))) < 1_000_000
    assert len(alignment_svg(diagonal(60))) < 25_000


def test_long_tokens_are_cut_so_that_the_picture_stays() -> None:
    svg = alignment_svg(Alignment(["x" * 5000], ["y"], [[1.0]], ""))
    assert max(map(len, texts(svg))) < 40
    assert int(re.findall(r'width="(\d+)"', svg)[0]) < 400


def test_an_alignment_shows_itself() -> None:
    words = ["le", "<script>alert(1)</script>"]
    shown = Alignment(words, words, np.eye(2), "<script>")._repr_svg_()
    assert "<script" not in shown
    assert ElementTree.fromstring(shown).get("width")
    assert [text for text in texts(shown) if text == "le"] == ["le", "le"]
