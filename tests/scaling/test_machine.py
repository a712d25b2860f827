"""`headway bench machine`: what is timed, and the table that plans read it from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.scaling import machine
from headway.scaling.hardware import load_hardware
from headway.training import utilisation


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SIDES": (64, 96), "NUMBERS": 2**16, "LENGTHS": (16, 32)}.items():
        monkeypatch.setattr(machine, name, value)
    monkeypatch.setattr(machine, "TOKENS", 64)
    monkeypatch.setattr(machine, "LEAST_S", 0.0)


def test_rates_are_work_over_the_fastest_round(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (machine, utilisation):
        monkeypatch.setattr(module, "best_seconds", lambda work, *_: (work(), 1e-3)[1])
    found = machine.measure(torch.device("cpu"))
    assert found.products == dict.fromkeys(("float32", "bfloat16"), round(2 * 96**3 / 1e6, 1))
    assert found.reading == round(4 * 2**16 / 1e6, 1)
    assert found.copying == pytest.approx(2 * 4 * 2**16 / 1e6, abs=0.1)


def test_a_dtype_without_instructions_is_not_timed_for_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """bfloat16 on many processors: a product of 4,096 takes as long as all else together."""
    asked: list[tuple[int, torch.dtype]] = []
    rates = {torch.float32: 1e12, torch.bfloat16: 1e8}

    def product_rate(side: int, dtype: torch.dtype, *_: object) -> float:
        asked.append((side, dtype))
        return rates[dtype]

    monkeypatch.setattr(machine, "product_rate", product_rate)
    monkeypatch.setattr(machine, "LONGEST_S", 1e-3)  # 2 · 64³ operations are 0.5 μs, or 5 ms
    found = machine.measure(torch.device("cpu"))
    wanted = [(64, torch.float32), (96, torch.float32), (64, torch.bfloat16)]
    assert asked == wanted
    assert {each["dtype"] for each in found.crossings} == {"float32"}


@pytest.mark.parametrize(
    ("faster", "tokens"), [({16, 32}, 16), ({32}, 32), ({16}, None), (set(), None)]
)
def test_a_crossing_holds_from_there_on(
    faster: set[int], tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(way: str, length: int, *_: object) -> float:
        return 2.0 if way == "reference" else 1.0 if length in faster else 3.0

    monkeypatch.setattr(machine, "_attention", seconds)
    monkeypatch.setattr(machine, "product_rate", lambda *_: 1e9)
    found = machine.measure(torch.device("cpu")).crossings
    assert [each["tokens"] for each in found] == [tokens] * 4
    assert {(each["work"], each["dtype"]) for each in found} == {
        (work, dtype) for work in ("training", "inference") for dtype in ("float32", "bfloat16")
    }


def test_plans_read_what_was_measured(tmp_path: Path, cli: Callable[..., Any]) -> None:
    table = tmp_path / "mine.toml"
    table.write_text(
        '[machine.desk]\nname = "old"\npeak = { float32 = 1.0 }\nmemory = 8.0\npower = 90.0\n'
        'source = "a sheet"\ndate = 2026-01-01\nmeasured = { float32 = 0.5 }\n',
        encoding="utf-8",
    )
    words = ("bench", "machine", "--hardware", table, "--device", "cpu")
    said = cli(*words, "--name", "desk", "--json", tmp_path / "found.json")
    assert said.code == 0, said
    told = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    desk = load_hardware(table).find("desk")
    assert desk.peak.bfloat16 == pytest.approx(told["products"]["bfloat16"] / 1e3, abs=1e-3)
    assert (desk.bandwidth, desk.device) == (told["reading"], "cpu")
    assert desk.power == 90.0  # what is not measured stays
    assert desk.measured is not None
    assert desk.measured.float32 == 0.5
    assert cli(*words, "--name", "other").code == 0
    assert set(tomllib.loads(table.read_text(encoding="utf-8"))["machine"]) == {"desk", "other"}
    planned = cli("plan", "--hours", "2", "--machine", "desk", "--hardware", table)
    assert "threads" in planned.out.decode()


def test_a_table_with_a_mistake_is_told_at_once_and_kept(
    tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "measure", lambda device: pytest.fail("it was measured first"))
    table = tmp_path / "mine.toml"
    table.write_text("[machines.desk]\n", encoding="utf-8")
    assert "unknown table 'machines'" in cli("bench", "machine", "--hardware", table).error
    assert table.read_text(encoding="utf-8") == "[machines.desk]\n"
    for name in ("here:2", "my desk", "a.b", ""):  # which plans would look for in vain
        said = cli("bench", "machine", "--name", name)
        assert f"--name: '{name}' cannot be the name of a machine" in said.error
