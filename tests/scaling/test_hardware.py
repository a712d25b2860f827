"""The table of machines: every figure has a source, and a table of one's own adds or replaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.scaling.hardware import load_hardware

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
MINE = """
[machine.mine]
name = "A board under the desk"
peak = { bfloat16 = 100.0, float32 = 20.0 }
memory = 12.0
bandwidth = 500.0
source = "its maker"
date = 2026-01-01
"""
UNORDERED = "utilisation = { utilisation = [0.5, 0.4, 0.6], source = '', date = 2026-01-01 }"


def test_every_machine_says_where_its_figures_are_from() -> None:
    hardware = load_hardware()
    assert len(hardware.machine) >= 17
    for machine in hardware.machine.values():
        assert machine.source
        assert machine.price is None or machine.price.source
        assert (machine.peak.bfloat16 or 1e9) > (machine.peak.float32 or 0.0)


def test_the_usual_utilisation_is_what_public_trainings_reached() -> None:
    measured = json.loads((RESULTS / "public-runs.json").read_text("utf-8"))["utilisation"]
    assert load_hardware().training.utilisation == [round(share, 2) for share in measured]


def test_a_machine_without_bfloat16_trains_in_float32() -> None:
    hardware = load_hardware()
    slow, fast = hardware.find("t4"), hardware.find("h100-sxm")
    assert (slow.dtype, fast.dtype) == ("float32", "bfloat16")
    assert hardware.rate(slow, 0.5) == (4.05e12, 4.05e12, 4.05e12)
    low, likely, high = hardware.rate(fast)
    assert low < likely < high < 989e12


def test_a_table_of_ones_own_adds_and_replaces(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(MINE + MINE.replace("machine.mine", "machine.t4"), encoding="utf-8")
    hardware = load_hardware(own)
    assert hardware.find("mine").memory == hardware.find("t4").memory == 12.0
    assert hardware.find("v100").memory == 16.0
    measured = "measured = { bfloat16 = 42.0 }\n"
    own.write_text(MINE + measured, encoding="utf-8")
    hardware = load_hardware(own)
    assert set(hardware.rate(hardware.find("mine"))) == {42e12}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[machine.mine]\nname = 'x'", "machine.mine.peak' is missing"),
        (MINE.replace("12.0", "-12.0"), "memory: input should be greater than 0, not -12.0"),
        (MINE.replace("12.0", "'many'"), "memory: input should be a valid number, not 'many'"),
        (MINE.replace("memory", "memry"), "did you mean 'memory'?"),
        (MINE.replace("bfloat16 = 100.0, float32 = 20.0", ""), "at least one of"),
        (MINE + UNORDERED, "[least, likely, greatest]"),
        ("[machines.mine]", "unknown table 'machines'; did you mean 'machine'?"),
        ("machine = 3", "a table is needed"),
        ("machine = ", "not TOML"),
    ],
)
def test_what_does_not_fit_is_told_with_its_key(tmp_path: Path, table: str, said: str) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(table, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_hardware(own)
    assert said in str(error.value)
    assert str(own) in str(error.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        load_hardware(tmp_path / "none.toml")
