"""A run on one file, from which validation and test are held out, from its preview to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.data.pairs import load_part
from headway.runs.prepare import prepare
from headway.settings.recipe import load_recipe

TranslationRecipe = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]


@pytest.fixture
def one_file(toy: Path, tmp_path: Path) -> Path:
    """The toy language as courses hand such files out: shortest first, with a licence."""
    sides = [
        (toy / f"train.{end}").read_text(encoding="utf-8").splitlines() for end in ("en", "fr")
    ]
    rows = sorted({f"{en}\t{fr}\tCC-BY 2.0\n" for en, fr in zip(*sides, strict=True)}, key=len)
    path = tmp_path / "fra.txt"
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture
def table(one_file: Path, toy_recipe: TranslationRecipe) -> dict[str, Any]:
    made = toy_recipe("transformer", steps=4, batch_tokens=128, evaluate_every=2, patience=9)
    for part in ("valid", "test"):
        del made["data"][part]
    made["data"] |= {
        "train": {"file": str(one_file), "format": "tsv", "source": 1, "target": 0},
        "held_out": 0.1,
    }
    made["evaluate"] = {"lines": 5, "beam": 1}
    return made


def test_a_run_chooses_by_and_reports_on_what_was_held_out(
    table: dict[str, Any], one_file: Path, tmp_path: Path, cli: Cli
) -> None:
    run = tmp_path / "run"
    headway.train(table, out=run)
    recipe = load_recipe(run / "recipe.toml")
    assert recipe.data.held_out == 0.1
    valid, test = load_part(recipe.data, "valid"), load_part(recipe.data, "test")
    assert valid is not None
    assert test is not None
    report = json.loads((run / "data.json").read_text(encoding="utf-8"))
    assert {each["kind"]: each["count"] for each in report["dropped"]} == {
        "held out for valid": len(valid),
        "held out for test": len(test),
    }
    rows = one_file.read_text(encoding="utf-8").count("\n")
    assert (report["read"], report["kept"]) == (rows, rows - len(valid) - len(test))
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    (end,) = (each for each in records if each["kind"] == "test")
    assert end["n"] == len(test)
    assert any(each["kind"] == "valid" for each in records)
    hashes = json.loads((run / "environment.json").read_text(encoding="utf-8"))["data"]
    assert hashes == prepare(recipe).hashes
    assert set(hashes) == {"train", "valid", "test"}
    said = cli("evaluate", run, "--beam", 1)
    assert f"{len(test)} pairs from {one_file}, held out for test" in said.out.decode("utf-8")


def test_a_run_resumes_only_with_the_same_parts(
    table: dict[str, Any], one_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    headway.train(table, out=run, train={"steps": 2})
    headway.train(None, out=run, resume=True, train={"steps": 3})
    with pytest.raises(UserError, match="'data' of a run that has begun cannot change"):
        headway.train(None, out=run, resume=True, data={"held_out": 0.2})
    test = load_part(load_recipe(table).data, "test")
    assert test is not None
    text = one_file.read_text(encoding="utf-8")
    row = f"{test.targets[0]}\t{test.sources[0]}\t"
    one_file.write_text(text.replace(row, f"red {row}"), encoding="utf-8")
    with pytest.raises(UserError, match="the test data are not what this run began with"):
        headway.train(None, out=run, resume=True, train={"steps": 4})


def test_the_preview_shows_each_part(
    table: dict[str, Any], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    recipe, found = load_recipe(table), tmp_path / "found.json"
    (tmp_path / "mine.toml").write_text(recipe.to_toml(), encoding="utf-8")
    for name in ("valid", "test"):
        part = load_part(recipe.data, name)
        assert part is not None
        said = cli("data", "preview", tmp_path / "mine.toml", "--part", name, "--json", found)
        assert said.code == 0, said.err
        shown = said.out.decode("utf-8")
        assert f"{len(part):,} rows read, {len(part):,} pairs kept (100.0%)" in shown
        assert f"fra.txt, held out for {name}" in shown
        pairs = json.loads(found.read_text(encoding="utf-8"))["pairs"]
        assert {pair["source"] for pair in pairs} <= set(part.sources)
    said = cli("data", "preview", tmp_path / "mine.toml")
    assert "held out for test" in said.out.decode("utf-8")


def test_too_few_rows_are_told_before_anything_is_written(
    table: dict[str, Any], tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "mine.toml").write_text(load_recipe(table).to_toml(), encoding="utf-8")
    words = ("--set", "data.held_out=1e-9", "--out", tmp_path / "run")
    said = cli("train", tmp_path / "mine.toml", *words)
    assert "data.held_out = 1e-09 leaves no pair of" in said.error
    assert not (tmp_path / "run").exists()
