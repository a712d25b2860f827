"""The demo from end to end, with models and data of seconds instead of minutes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.runs import demo

SMALL = {
    "data.train.lines": 400,
    "data.valid.lines": 10,
    "data.test.lines": 60,
    "tokenizer.size": 300,
}
SMALL |= {f"data.{part}.max_words": 12 for part in ("train", "valid", "test")}
SMALL |= {"evaluate.beam": 1, "evaluate.max_ratio": 1.0, "train.batch_tokens": 512}
SMALL |= {"train.dtype": "float32", "train.warmup": 1}
RECURRENT = {"train.steps": 2, "model.d_embedding": 8, "model.d_hidden": 16}
TRANSFORMER = {"train.steps": 2, "model.d_model": 16, "model.d_feed_forward": 16}
TRANSFORMER |= {"model.n_heads": 2}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(demo.MODELS) == ["rnn", "rnn-attention", "transformer"]
    models = {"rnn": RECURRENT, "rnn-attention": RECURRENT, "transformer": TRANSFORMER}
    monkeypatch.setattr(demo, "MODELS", models)
    monkeypatch.setattr(demo, "SHORT", SMALL)


@pytest.mark.usefixtures("quick")
def test_the_demo_compares_three_models(cli: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "demo"
    said = cli("demo", "--out", out, "--json", tmp_path / "demo.json")
    assert said.code == 0, said.err
    scores = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert set(scores) == {"seconds", "rnn", "rnn-attention", "transformer"}
    assert scores["seconds"] > 0
    for name in demo.MODELS:
        assert set(scores[name]) == {"exact_match", "chrf", "by_length"}
        assert sum(part["n"] for part in scores[name]["by_length"]) == 60
        assert (out / name / "model.safetensors").exists()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in demo.MODELS)
    assert page.count("<svg") >= 4
    assert b"Exact match and chrF by words of the source" in said.out
    assert f"headway attention {out}/transformer --source" in said.err
    # what it says to type next
    assert len(headway.load(out / "transformer").attention("3 mars 2021").source) > 1


@pytest.mark.parametrize("found", [True, False])
def test_the_demo_says_how_the_shell_finds_headway(
    found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headway").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if found else "")
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    assert demo.way() == ("" if found else "  source .venv/bin/activate\n")


@pytest.mark.usefixtures("quick")
def test_a_demo_replaces_an_earlier_one(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "MODELS", {"rnn": RECURRENT})
    assert cli("demo", "--out", tmp_path).code == 0
    (tmp_path / ".DS_Store").touch()
    (tmp_path / "rnn" / "mine.txt").touch()
    assert cli("demo", "--out", tmp_path).code == 0
    assert not (tmp_path / "rnn" / "mine.txt").exists()


def test_a_demo_takes_no_folder_of_something_else(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious", encoding="utf-8")
    said = cli("demo", "--out", tmp_path)
    assert "more than a demo in it ('thesis.tex'); use --out DIR" in said.error
    assert "there is a file of that name" in cli("demo", "--out", tmp_path / "thesis.tex").error
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "precious"


def test_the_demo_is_the_shipped_recipes() -> None:
    from headway.settings.recipe import load_recipe

    for name, overrides in demo.MODELS.items():
        settings = load_recipe(f"cldr/{name}", demo.SHORT | overrides)
        assert settings.train.steps < load_recipe(f"cldr/{name}").train.steps
        assert settings.data.test is not None
    with pytest.raises(UserError, match="unknown key"):
        load_recipe("cldr/rnn", {"train.step": 1})
