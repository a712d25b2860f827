"""A sweep that really trains, one of whose runs is killed and goes on; where each is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.scaling import jobs
from headway.scaling.jobs import Job, work
from headway.scaling.points import read_runs
from headway.scaling.sweep import begin_sweep
from headway.scaling.sweep_ends import sweep_points
from headway.scaling.sweep_run import run_sweep
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

PATIENCE_S = 240


def losses(run: Path) -> list[tuple[str, int, float, int]]:
    """What a run told of its steps, but for times."""
    return [
        (each["kind"], each["step"], each["nll"], each["tokens"])
        for each in RunFolder(run).metrics.read()
        if each["kind"] in ("train", "valid")
    ]


def kill_after_a_checkpoint(run: Path, processes: dict[Path, subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not any((run / "checkpoints").glob("step-*")):
        if time.monotonic() > until:
            return  # the sweep ends well then, and the test fails
        time.sleep(0.002)
    os.kill(processes[run].pid, signal.SIGKILL)


def test_a_run_of_a_sweep_that_is_killed_goes_on(
    recipe: LanguageRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with the tokens and the loss of the same recipe that nothing stopped."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as the run beside them has, to the last bit
    keys: dict[str, Any] = {"train.dtype": "float32", "train.save_every": 10}
    keys |= {"data.train.stdlib.lines": 60, "data.held_out": 0.3, "evaluate.rows": 8}
    found = load_recipe(recipe.to_table(), keys)
    assert isinstance(found, LanguageRecipe)
    sweep = begin_sweep(tmp_path / "law", found, [2e9], [(6e3, False), (12e3, False)], None)
    whole, killed = (sweep.job(run["name"]) for run in sweep.runs)
    processes: dict[Path, subprocess.Popen[bytes]] = {}
    start = jobs._start

    def start_and_keep(job: Job, *rest: Any) -> subprocess.Popen[bytes]:
        processes[job.run] = start(job, *rest)
        return processes[job.run]

    monkeypatch.setattr(jobs, "_start", start_and_keep)
    words = killed.command("cpu")
    assert str(killed.recipe) in words
    assert "--resume" not in words
    killer = threading.Thread(target=kill_after_a_checkpoint, args=(killed.run, processes))
    killer.start()
    with pytest.raises(UserError, match="1 of 2 runs failed") as error:
        run_sweep(sweep, processes=2, devices=["cpu"])
    killer.join()
    assert str(killed.log) in str(error.value)
    assert (whole.finished, killed.finished, killed.begun) == (True, False, True)
    assert [run["name"] for run in sweep.finished()] == [whole.run.name]
    words = killed.command("cpu")
    assert words[-1] == "--resume"
    assert str(killed.recipe) not in words
    assert not any(word.startswith("--set") for word in words)

    run_sweep(sweep, processes=2, devices=["cpu"])
    headway.train(killed.recipe, out=tmp_path / "alone", device="cpu", **in_place(killed))
    _, rows = sweep_points(sweep)
    unbroken = read_runs([tmp_path / "alone"])
    assert (rows[1]["tokens"], rows[1]["loss"]) == (unbroken["tokens"][0], unbroken["loss"][0])
    assert rows[1]["tokens"] == pytest.approx(sweep.runs[1]["tokens"], rel=0.01)
    went_on, alone = losses(killed.run), losses(tmp_path / "alone")
    assert went_on == alone
    (resumed,) = [each for each in RunFolder(killed.run).metrics.read() if each["kind"] == "resume"]
    assert resumed["step"] >= 10


def in_place(job: Job) -> dict[str, str]:
    """The settings that a job gives its recipe."""
    return dict(setting.split("=", 1) for setting in job.settings)


SAYS = """
import os, pathlib, sys, time
run, device = pathlib.Path(sys.argv[1]), sys.argv[2]
run.mkdir()
while run.name == "b" and not (run.parent / "d" / "report.html").exists():
    time.sleep(0.01)
(run / "said").write_text(f"{device} {os.environ.get('OMP_NUM_THREADS')}", encoding="utf-8")
(run / "report.html").write_text("", encoding="utf-8")
"""


@pytest.mark.parametrize(
    ("processes", "devices", "given", "said"),
    [
        # b holds the second slot to the end, so that all others have the first one's device
        (2, ["cpu", "cuda:1"], None, ["cpu 3", "cuda:1 3", "cpu 3", "cpu 3"]),
        (4, ["cuda:0", "cuda:1"], None, ["cuda:0 1", "cuda:1 1"] * 2),
        (9, ["cpu"], None, ["cpu 1"] * 4),  # more processes than cores
        (2, ["cpu"], "5", ["cpu 5"] * 4),
    ],
)
def test_each_slot_has_a_device_and_its_share_of_the_cores(
    processes: int,
    devices: list[str],
    given: str | None,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr(
        Job,
        "command",
        lambda job, device: [sys.executable, "-I", "-S", "-c", SAYS, str(job.run), device],
    )
    made = [Job(tmp_path / "recipe", tmp_path / name, tmp_path / f"{name}.log") for name in "abcd"]
    ended: list[bool] = []
    work(
        made,
        processes=processes,
        devices=devices,
        ended=lambda job, well: ended.append(well),
        waiting=lambda now: None,
    )
    assert ended == [True] * 4
    assert [(job.run / "said").read_text(encoding="utf-8") for job in made] == said


def test_a_process_alone_has_all_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own number of threads, whatever that is."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    code = SAYS.replace('"b"', '"none"')
    monkeypatch.setattr(
        Job, "command", lambda job, device: [sys.executable, "-c", code, str(job.run), device]
    )
    job = Job(tmp_path / "recipe", tmp_path / "a", tmp_path / "log")
    work([job], processes=1, devices=["cpu"], ended=lambda *_: None, waiting=lambda _: None)
    assert (job.run / "said").read_text(encoding="utf-8") == "cpu None"
