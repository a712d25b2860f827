"""A training from a plan: its report has what was planned beside what happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.runs.planned import plan_rows
from headway.settings.memory import Batch, training_bytes
from headway.settings.planned import PlannedSettings
from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]
PLAN: dict[str, Any] = {
    "machine": "here",
    "tokens": 2000.0,
    "tokens_per_second": [50.0, 100.0, 200.0],
    "hours": [0.01, 0.01, 0.01],
    "loss": [2.9, 3.0, 3.2],
    "memory": 1e6,
}


def test_ratios_are_what_happened_over_what_was_likely() -> None:
    records = [
        {"kind": "train", "tokens": 1000, "seconds": 20.0},
        {"kind": "valid", "nll": 5.0},
        {"kind": "memory", "bytes": 1_500_000},
        {"kind": "test", "nll": 4.5},
    ]
    rows = plan_rows(PlannedSettings(**PLAN), records)
    assert rows == [
        ("tokens a second", "100 (50 to 200)", "50", "0.50"),
        ("hours of training", "0.01", "0.00556", "0.56"),
        ("tokens", "2,000", "1,000", "0.50"),
        ("bytes of tensors", "1,000,000", "1,500,000", "1.50"),
        ("loss, nats a token", "3.000 (2.900 to 3.200)", "4.500", "1.50"),
    ]
    assert plan_rows(None, records) == []
    assert [row[0] for row in plan_rows(PlannedSettings(**PLAN), records[:1])] == [
        *("tokens a second", "hours of training", "tokens"),
    ]


def test_a_planned_training_reports_on_its_plan(cli: Cli, tmp_path: Path) -> None:
    plan, text, out = tmp_path / "plan.toml", tmp_path / "text.txt", tmp_path / "run"
    lines = [f"{n} sheep, and {2 * n} more, make {3 * n} sheep\n" for n in range(600)]
    text.write_text("".join(lines), encoding="utf-8")
    words = ("--params", "200k", "--tokens", "20M", "--machine", "laptop-cpu", "--length", "32")
    said = cli("plan", *words, "--vocabulary", "300", "--recipe", plan)
    assert said.code == 0, said.err
    table = load_recipe(plan, {"data.train.text.files": "a.txt"}).to_table()
    assert table["plan"]["tokens_per_second"][1] > 0
    keys = {
        "data.train.text.files": text,
        "data.train.text.document": "line",
        "data.duplicates": "keep",
        "train.steps": 3,
        "train.dtype": "float32",
        "evaluate.samples": 0,
    }
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    said = cli("train", plan, *settings, "--out", out)
    assert said.code == 0, said.err
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    (held,) = [record for record in records if record["kind"] == "memory"]
    config = json.loads((out / "config.json").read_text("utf-8"))
    found = load_recipe(out / "recipe.toml")
    rows = found.train.batch_tokens // 32
    batch = Batch(rows, 32, accumulates=found.train.accumulate > 1)
    counted = training_bytes(found.model, config["n_tokens"], batch)  # type: ignore[arg-type]
    assert held["bytes"] == pytest.approx(counted.peak, rel=0.1)
    assert table["plan"]["memory"] == pytest.approx(held["bytes"], rel=0.1)
    page = (out / "report.html").read_text("utf-8")
    assert "The plan, and what happened" in page
    assert page.count("bytes of tensors") == 1
    said = cli("train", "--resume", "--set", "train.steps=4", "--out", out)
    assert said.code == 0, said.err
    assert "The plan, and what happened" in (out / "report.html").read_text("utf-8")
