"""A finished run on record: all of its evaluations, none of its samples."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headway


def test_every_evaluation_is_on_record(toy_recipe: Callable[..., Any], tmp_path: Path) -> None:
    recipe = toy_recipe("plain", steps=6, save_every=2, evaluate_every=3, average=2)
    recipe["evaluate"] = {"lines": 2, "beam": 1}
    headway.train(recipe, out=tmp_path / "run")
    log = tmp_path / "run.log"
    log.write_text("one\ntwo\n", encoding="utf-8")
    found = importlib.import_module("collect").collect(tmp_path / "run", log, [])
    assert [each["step"] for each in found["valid"]] == [3, 6]
    assert (found["average"]["step"], found["average"]["of"]) == (6, 2)
    assert found["test"]["beam"] == 1
    assert found["last_train"]["step"] == 6
    assert found["log"] == ["one", "two"]
    assert not any("samples" in each for each in (*found["valid"], found["average"]))
