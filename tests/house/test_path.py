"""The documentation names functions that exist, and the path of a sentence is as it tells it."""

from __future__ import annotations

import functools
import importlib
import re
import runpy
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import headway

ROOT = Path(__file__).parents[2]
PACKAGE = Path(headway.__file__).parent
PATH_PAGE = ROOT / "docs/explanation/path-of-a-sentence.md"
PLACE = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
HOP = re.compile(r"^\| (\d+) \| `([^`]+)` \|", re.MULTILINE)
PLACES = sorted(
    {
        match.groups(default="")
        for page in (ROOT / "docs").rglob("*.md")
        for match in PLACE.finditer(page.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_what_a_page_names_exists(file: str, name: str) -> None:
    if not (PACKAGE / file).exists():
        assert not name
        assert (ROOT / file).is_file()
        return
    module = importlib.import_module("headway." + file.removesuffix(".py").replace("/", "."))
    if name:
        functools.reduce(getattr, name.split("."), module)


def hops() -> list[str]:
    """What the first table of the page names, in its order."""
    page = PATH_PAGE.read_text(encoding="utf-8")
    table = page[: page.index("## ")]
    numbered = HOP.findall(table)
    assert [int(number) for number, _ in numbered] == list(range(1, 11))
    return [place for _, place in numbered]


def test_the_hops_come_in_the_order_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the page's own code and notes which function of ours gives a result first."""
    code = re.findall(r"```python\n(.*?)```", PATH_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    returned: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "return" and file.is_relative_to(PACKAGE):
            place = f"{file.relative_to(PACKAGE).as_posix()}:{frame.f_code.co_qualname}"
            returned.setdefault(place)

    monkeypatch.chdir(tmp_path)
    Path("page.py").write_text("\n".join(code), encoding="utf-8")
    sys.setprofile(note)
    try:
        runpy.run_path("page.py")
    finally:
        sys.setprofile(None)
    wanted = hops()
    assert [place for place in returned if place in wanted] == wanted
