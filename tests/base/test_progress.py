"""Progress: plain lines without a terminal, a live bar on one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from headway.base import progress


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_plain_line_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.ProgressBar("training", 100, done=40) as steps:
        clock.now += 29
        steps.advance(10, "loss 2.0")
        assert capsys.readouterr().err == ""
        clock.now += 1
        steps.advance(10, "loss 1.5")
        # 20 of the steps took 30 s here: the 40 before are another process's
        line = "training: 60/100 steps  loss 1.5  60 s left\n"
        assert capsys.readouterr().err == line
        clock.now += 1
        steps.advance(10)
        assert capsys.readouterr().err == ""
    assert steps.done == 70


def test_no_rate_yet_is_no_division_by_zero(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.ProgressBar("training", 10) as steps:
        clock.now += 31
        steps.advance(0)
    assert "0/10" in capsys.readouterr().err


def test_results_on_standard_output_stay_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.ProgressBar("training", 10):
        progress.say("a sample [0] [/b]")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "a sample [0] [/b]\n"


def test_a_live_bar_shows_texts_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200, highlight=False)
    monkeypatch.setattr(progress, "console", lambda: console)
    with progress.ProgressBar("[x] training", 10, unit="pairs") as steps:
        steps.advance(3, "loss [/2.0]")
    for shown in ("[x] training", "3/10", "pairs", "loss [/2.0]"):
        assert shown in screen.getvalue()


def test_the_bar_goes_when_an_error_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(progress, "console", lambda: console)
    steps = progress.ProgressBar("training", 10)
    with pytest.raises(KeyboardInterrupt), steps:
        raise KeyboardInterrupt
    assert not steps.bar.live.is_started
