"""Running a study: what is kept, what is written, what is said; with a study of no cost."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import Interrupted, UserError
from headway.lens.figures import Bars
from headway.studies.base import Check, Conclusion, Found, Number, Plain, Study
from headway.studies.run import run_study

STOPPED = Interrupted(signal.SIGINT, "stopped and saved after step 3 of 9")


class Counting:
    """A study that notes what it measures; `stop_at` interrupts before that measurement."""

    def __init__(
        self, *, width: int = 3, stop_at: int | None = None, stop: BaseException = STOPPED
    ) -> None:
        self.measured: list[tuple[int, int]] = []
        self.width, self.stop_at, self.stop = width, stop_at, stop
        self.study = Study("counting", "More is more.", self.settings, self.measure, self.conclude)

    def settings(self, quick: bool) -> Mapping[str, Plain]:
        return {"small": {"n": 1}, "large": {"n": self.width + 10 * quick}}

    def measure(self, settings: Plain, seed: int) -> Plain:
        if self.stop_at == len(self.measured):
            raise self.stop
        self.measured.append((settings["n"], seed))
        return {"size": settings["n"] + seed / 10, "odd": math.nan, "list": [[1, math.inf]]}

    def conclude(self, found: Found) -> Conclusion:
        sizes = {name: found.values(name, "size") for name in found.outcomes}
        check = Check("more is more", "above", "so", min(sizes["large"]) > max(sizes["small"]))
        rows = {name: {"size": found.value(name, "size")} for name in found.outcomes}
        bars = Bars("Sizes", "size", list(rows), {"": [row["size"] for row in rows.values()]})
        value = found.value("large", "size")
        return Conclusion(Number("largest", value), rows, [check], "Text.", "Sizes", [bars])


def test_a_study_writes_its_result_and_its_picture(tmp_path: Path) -> None:
    counting = Counting()
    report = run_study(counting.study, out=tmp_path / "x" / "counting")
    assert counting.measured == [(1, 1), (3, 1), (1, 2), (3, 2), (1, 3), (3, 3)]
    assert (report.result.name, report.picture.name) == ("result.json", "picture.svg")
    table = json.loads(report.result.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert table["study"] == "counting"
    assert table["claim"] == "More is more."
    assert table["holds"] is True
    assert table["command"] == "headway study counting --seeds 3"
    assert table["settings"] == {"small": {"n": 1}, "large": {"n": 3}}
    assert table["number"]["value"] == pytest.approx({"mean": 3.2, "low": 3.1, "high": 3.3})
    assert [each["seed"] for each in table["measured"]] == [1, 1, 2, 2, 3, 3]
    assert table["measured"][1]["outcome"] == {"size": 3.1, "odd": None, "list": [[1, None]]}
    assert "processor" in table["machine"]
    assert "command" not in table["machine"]
    picture = report.picture.read_text(encoding="utf-8")
    assert "Full run; mean and range over 3 seeds" in picture


def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_study(Counting().study, out=tmp_path, seeds=1).table
    again = Counting()
    second = run_study(again.study, out=tmp_path, seeds=2).table
    assert again.measured == [(1, 2), (3, 2)]
    assert second["measured"][:2] == first["measured"]
    assert "measured before: size 3.1" in capsys.readouterr().err
    other = Counting(width=4)  # another setting has another outcome
    run_study(other.study, out=tmp_path, seeds=1)
    assert other.measured == [(4, 1)]


def test_quick_is_one_seed_of_its_own(tmp_path: Path) -> None:
    run_study(Counting().study, out=tmp_path)
    counting = Counting()
    report = run_study(counting.study, quick=True, out=tmp_path)
    assert counting.measured == [(13, 1)]
    assert report.table["command"] == "headway study counting --quick --seeds 1"
    picture = report.picture.read_text(encoding="utf-8")
    assert "Quick run on an easier task; one seed" in picture


@pytest.mark.parametrize("stop", [STOPPED, KeyboardInterrupt()])  # in a training, or outside
def test_a_stopped_study_goes_on(stop: BaseException, tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="3 of 6 measurements are kept") as stopped:
        run_study(Counting(stop_at=3, stop=stop).study, out=tmp_path)
    assert stopped.value.signal == signal.SIGINT
    assert not (tmp_path / "result.json").exists()
    counting = Counting()
    run_study(counting.study, out=tmp_path)
    assert counting.measured == [(3, 2), (1, 3), (3, 3)]


def test_the_folder_is_named_after_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_study(Counting().study, seeds=1)
    assert (tmp_path / "runs/studies/counting/result.json").exists()


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="0 seeds"):
        run_study(Counting().study, out=tmp_path, seeds=0)
    (tmp_path / "file").write_text("", encoding="utf-8")
    counting = Counting()
    with pytest.raises(UserError, match="cannot write"):
        run_study(counting.study, out=tmp_path / "file")
    assert counting.measured == []


def test_a_check_that_fails_is_no_error(tmp_path: Path) -> None:
    table: dict[str, Any] = run_study(Counting(width=0).study, out=tmp_path).table
    assert table["holds"] is False
    assert "do not show it" in table["paragraph"]
