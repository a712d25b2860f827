"""Trainings side by side, each a process of its own that goes on where it was stopped."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headway.base.errors import Interrupted
from headway.base.files import explain_os_errors, remove_folder

_LOOK_EVERY_S = 0.2
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


@dataclass(frozen=True)
class Job:
    """A recipe's file, the folder that its run is or will be, and a file for what it says.

    `settings` (KEY=VALUE) replace what the recipe says.
    """

    recipe: Path
    run: Path
    log: Path
    settings: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end: its report is the last that it writes."""
        return (self.run / "report.html").exists()

    @property
    def begun(self) -> bool:
        """Whether there is a run to go on with."""
        return (self.run / "config.json").exists()

    def command(self, device: str) -> list[str]:
        """What trains it, from its newest checkpoint if there is one."""
        words = [sys.executable, "-m", "headway", "train", "--out", str(self.run)]
        words += ["--device", device]
        if self.begun:
            return [*words, "--resume"]
        return [*words, str(self.recipe), *(f"--set={each}" for each in self.settings)]


def work(
    jobs: Sequence[Job],
    *,
    processes: int,
    devices: Sequence[str],
    ended: Callable[[Job, bool], None],
    waiting: Callable[[Sequence[Job]], None],
) -> None:
    """Train them all, so many at a time, the processes on the devices in turn.

    `ended` is told each job and whether it went well, `waiting` those that run, every so often.
    When this is stopped the trainings save and stop; if it is killed, too, where there is Linux.
    Raises Interrupted when it was stopped by Ctrl-C or SIGTERM.
    """
    left, running = list(jobs), dict[int, tuple[Job, subprocess.Popen[bytes]]]()
    with _stops():
        try:
            while left or running:
                for slot in range(processes):
                    if left and slot not in running:
                        job = left.pop(0)
                        device = devices[slot % len(devices)]
                        running[slot] = job, _start(job, device, processes)
                for slot, (job, process) in list(running.items()):
                    if process.poll() is not None:
                        del running[slot]
                        ended(job, process.returncode == 0 and job.finished)
                waiting([job for job, _ in running.values()])
                time.sleep(_LOOK_EVERY_S)
        finally:
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
                process.wait()


def _start(job: Job, device: str, processes: int) -> subprocess.Popen[bytes]:
    if job.run.exists() and not job.begun:  # killed as it began: there is nothing in it
        remove_folder(job.run)
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    environment = {"OMP_NUM_THREADS": threads, **os.environ} if processes > 1 else None
    with explain_os_errors(job.log):
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with open(job.log, "ab") as log:
            return subprocess.Popen(
                job.command(device),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C comes to us, and we stop them
                preexec_fn=_end_with_parent(),
            )


def _end_with_parent() -> Callable[[], object] | None:
    """What has the system stop a process, which saves, if the one that started it is killed.

    None where there is no such call. The library is looked up before the process parts.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def _stops() -> Iterator[None]:
    """Ctrl-C and SIGTERM as one exception."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number, "stopped; the runs have saved what they had")

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
