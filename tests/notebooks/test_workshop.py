"""The workshop runs from top to bottom as a student runs it, in its short form, without Jupyter."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "workshop.ipynb"
SHORT = {"SHORT = False": "SHORT = True"}

# Each cell in one namespace; what its last line gives shows itself, as a notebook would have it.
RUNNER = """
import ast, json, sys

names = {"__name__": "__main__"}
for cell, code in json.load(open(sys.argv[1], encoding="utf-8")):
    print(f"cell {cell}", flush=True)
    body = ast.parse(code, filename=f"<cell {cell}>").body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), f"<cell {cell}>", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"<cell {cell}>", "eval"), names)
        show = getattr(value, "_repr_html_", None) or value._repr_svg_
        print("shown", len(show().encode("utf-8")), flush=True)
        repr(value)
print("end", flush=True)
"""


def cells(kind: str = "code") -> list[dict[str, Any]]:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in book["cells"] if cell["cell_type"] == kind]


def sources() -> list[tuple[str, str]]:
    return [(cell["id"], "".join(cell["source"])) for cell in cells()]


def shortened(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The cells with the one switch in the cell of parameters set."""
    switched = 0
    for place, (name, code) in enumerate(found):
        if name == "parameters":
            for old, new in SHORT.items():
                switched += code.count(old)
                found[place] = (name, code.replace(old, new))
    assert switched == 1
    return found


def execute(found: list[tuple[str, str]], folder: Path) -> str:
    """What the cells said; AssertionError with the cell's name and its traceback if one fails."""
    (folder / "cells.json").write_text(json.dumps(found), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", RUNNER, "cells.json"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=280,
    )
    reached = [line for line in result.stdout.splitlines() if line.startswith("cell ")]
    where = reached[-1] if reached else "before the first cell"
    assert result.returncode == 0, f"{where}:\n{result.stderr[-4000:]}"
    return result.stdout


def test_the_workshop_runs(tmp_path: Path) -> None:
    said = execute(shortened(sources()), tmp_path).splitlines()
    assert said[-1] == "end"
    assert [line for line in said if line.startswith("cell ")] == [
        f"cell {name}" for name, _ in sources()
    ]
    shown = [int(line.split()[1]) for line in said if line.startswith("shown ")]
    silent = {"parameters", "setup"}
    assert len(shown) == len(sources()) - len(silent)
    assert min(shown) > 200
    runs = {path.parent.name for path in (tmp_path / "runs/workshop").glob("*/report.html")}
    scores = {"dot", "scaled_dot", "bilinear", "low_rank_bilinear", "additive"}
    assert runs == {"letters", "pieces", "words", "rnn", "transformer", *scores}


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    book = [("first", "x = 1"), ("second", "x + y"), ("third", "x")]
    with pytest.raises(AssertionError, match=r"cell second:(.|\n)*name 'y' is not defined"):
        execute(book, tmp_path)


def test_the_notebook_is_valid_and_has_no_outputs() -> None:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert set(book) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    names = [cell["id"] for cell in book["cells"]]
    assert len(set(names)) == len(names)
    for cell in book["cells"]:
        assert cell["cell_type"] in ("code", "markdown")
        more = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | more
        assert all(isinstance(line, str) for line in cell["source"])
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    for name, code in sources():
        ast.parse(code, filename=name)
        assert max(map(len, code.splitlines())) <= 100, name


def test_each_part_ends_with_questions() -> None:
    parts = "\n".join("".join(cell["source"]) for cell in cells("markdown")).split("\n## ")[1:]
    assert len(parts) == 6
    for part in parts:
        assert "**Questions**" in part, part.splitlines()[0]
