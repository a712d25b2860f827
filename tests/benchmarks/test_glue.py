"""What a comparison on GLUE says of scores, time and memory, and of runs without the latter."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RESULTS = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("glue-*.json"))


def one(who: str, seed: int, **measured: float) -> dict[str, Any]:
    epochs = [{"accuracy": 50.0, "f1": 60.0 + seed, "matthews": 10.0}]
    return {"who": who, "seed": seed, "steps": 3, "dtype": "float32", **measured, "epochs": epochs}


def test_memory_is_the_largest_of_each_side() -> None:
    runs = [
        one("headway", 1, peak_mib=400.0),
        one("trainer", 1, peak_mib=1000.0),
        one("headway", 2, peak_mib=500.0),
        one("trainer", 2, peak_mib=900.0),
    ]
    found = importlib.import_module("glue").summary(runs, "f1")
    assert found["headway"]["peak_mib"] == [400.0, 500.0]
    assert found["peak_mib_ratio"] == 0.5
    assert "train_s_ratio" not in found


def test_runs_without_memory_stay_beside_those_with_it() -> None:
    runs = [one("headway", 1, train_s=2.0), one("trainer", 1, train_s=8.0)]
    summary = importlib.import_module("glue").summary
    assert "peak_mib_ratio" not in summary(runs, "f1")
    runs.append(one("headway", 2, train_s=2.0, peak_mib=300.0))
    assert "peak_mib_ratio" not in summary(runs, "f1")  # there is nothing to compare it with
    runs.append(one("trainer", 2, train_s=8.0, peak_mib=400.0))
    found = summary(runs, "f1")
    assert found["peak_mib_ratio"] == 0.75
    assert found["train_s_ratio"] == 0.25
    assert found["trainer"]["f1"] == [61.0, 62.0]


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_what_is_on_record_is_summed_up_as_it_was(file: Path) -> None:
    glue, table = importlib.import_module("glue"), json.loads(file.read_text("utf-8"))
    found = glue.summary(table["runs"], glue.JUDGED[table["task"].removeprefix("glue/")])
    for name, value in table["summary"].items():
        if isinstance(value, dict):
            assert {key: found[name][key] for key in value} == value
        else:
            assert found[name] == value


def test_the_peak_of_the_command_line_is_written_down(benchmarks: Path, tmp_path: Path) -> None:
    place = tmp_path / "peak"
    command = [sys.executable, str(benchmarks / "peaked.py"), str(place)]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0
    assert "finetune" in done.stdout
    without = float(place.read_text("utf-8"))
    assert 10 < without < 150  # no torch
    done = subprocess.run([*command, "train", "no.toml"], capture_output=True, check=False)
    assert done.returncode == 2  # as without it
    assert float(place.read_text("utf-8")) > 10
