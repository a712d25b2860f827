"""The referee of the benchmarks: turns, ratios, and an eye for a machine that is not quiet."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CONTENDER = """
import sys
sys.path.insert(0, sys.argv[1])
from contest import serve

def prepare():
    print("a library talks")
    done = []
    def work():
        print("and goes on talking")
        done.append(bytearray(int(sys.argv[2]) << 20))
        return 10, {"turn": len(done)}
    return work

serve(prepare)
"""


@pytest.fixture
def contest() -> ModuleType:
    return importlib.import_module("contest")


def turns(contest: ModuleType, seconds: list[float], **changes: Any) -> list[Any]:
    facts: dict[str, Any] = {
        "amount": 100,
        "cpu_seconds": 1.0,
        "elsewhere": 0.0,
        "peak_mib": 50.0,
        "told": {},
    }
    return [contest.Turn(seconds=each, **facts | changes) for each in seconds]


def test_contenders_take_turns_and_only_those_after_the_warm_up_count(
    contest: ModuleType, benchmarks: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "contender.py"
    file.write_text(CONTENDER, encoding="utf-8")
    commands = {
        name: [sys.executable, str(file), str(benchmarks), mib]
        for name, mib in (("small", "1"), ("large", "60"))
    }
    found = contest.contest(commands, rounds=2, warm_up=1)
    assert {name: [turn.told["turn"] for turn in each] for name, each in found.items()} == {
        "small": [2, 3],
        "large": [2, 3],
    }
    assert all(turn.amount == 10 and turn.seconds > 0 for each in found.values() for turn in each)
    small, large = (max(turn.peak_mib for turn in found[name]) for name in commands)
    assert 150 < large - small < 200
    said = [line for line in capfd.readouterr().err.splitlines() if "a second" in line]
    assert [line.split(":")[0].strip() for line in said] == ["large", "small", "small", "large"]


def test_a_contender_that_ends_early_is_told(contest: ModuleType) -> None:
    with pytest.raises(contest.Lost, match="gone ended with code 3"):
        contest.contest({"gone": [sys.executable, "-c", "raise SystemExit(3)"]}, rounds=1)


def test_a_contender_that_ends_while_it_waits_is_told(contest: ModuleType) -> None:
    """As one does that is killed for the memory of another."""
    command = [sys.executable, "-c", "print('{}', flush=True); raise SystemExit(3)"]
    with contest.Contender("gone", command) as contender:
        contender.answer()
        contender.process.wait()
        with pytest.raises(contest.Lost, match="gone ended with code 3"):
            contender.turn()


def test_a_lost_peer_costs_the_others_nothing(
    contest: ModuleType, benchmarks: Path, tmp_path: Path
) -> None:
    file = tmp_path / "contender.py"
    file.write_text(CONTENDER, encoding="utf-8")
    own = [sys.executable, str(file), str(benchmarks), "1"]
    gone = [sys.executable, "-c", "raise SystemExit(3)"]
    turns, lost = contest.remaining({"ours": own, "gone": gone, "peer": own}, rounds=2)
    assert {name: len(each) for name, each in turns.items()} == {"ours": 2, "peer": 2}
    assert lost == {"gone": "gone ended with code 3"}
    with pytest.raises(contest.Lost, match="ours ended"):  # there is nobody to compare them with
        contest.remaining({"ours": gone, "peer": own}, rounds=1)


def test_rows_of_a_lost_contender_are_one_with_the_reason(contest: ModuleType) -> None:
    def measured(peer: str) -> list[dict[str, Any]]:
        if peer == "gone":
            raise contest.Lost("gone", "gone ended with code 3")
        return [{"peer": peer}]

    assert contest.rows_or_reason({"peer": "there"}, measured, "there") == [{"peer": "there"}]
    (row,) = contest.rows_or_reason({"peer": "gone"}, measured, "gone")
    assert row == {"peer": "gone", "reason": "gone ended with code 3", "agrees": False}


def test_the_ratio_is_of_rates_and_the_median_of_the_rounds(contest: ModuleType) -> None:
    row = contest.speed_row(turns(contest, [1.0, 1.0, 2.0]), turns(contest, [2.0, 3.0, 2.0]))
    assert (row["ours"], row["theirs"], row["ratio"]) == (100.0, 50.0, 2.0)
    assert row["ratio_range"] == [1.0, 3.0]
    assert row["cpu_ratio"] == 1.0
    assert "limit_share" not in row
    limited = contest.speed_row(turns(contest, [2.0]), turns(contest, [1.0]), limit=200.0)
    assert limited["limit_share"] == 0.25
    memory = contest.memory_row(turns(contest, [1.0], peak_mib=30.0), turns(contest, [1.0]))
    assert memory == {"ours": 30, "theirs": 50, "ratio": 0.6}


def test_a_machine_that_is_not_quiet_is_seen(contest: ModuleType) -> None:
    steady = turns(contest, [1.0, 1.1, 1.0])
    assert contest.disturbances({"ours": steady}) == []
    assert contest.disturbances({"ours": turns(contest, [1.0], elsewhere=None)}) == []
    (uneven,) = contest.disturbances({"ours": steady, "theirs": turns(contest, [1.0, 1.3])})
    assert "theirs" in uneven
    assert "1.30 times" in uneven
    (beside,) = contest.disturbances({"ours": turns(contest, [1.0, 1.0], elsewhere=0.9)})
    assert "0.9 cores" in beside
