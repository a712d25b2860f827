"""What tests of commands that run for a while share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

WaitFor = Callable[[int, Path, "subprocess.Popen[str]", float], None]


@pytest.fixture
def wait_for() -> WaitFor:
    """Waits until a checkpoint of a step, or of a later one, has its name."""

    def wait(step: int, run: Path, process: subprocess.Popen[str], patience_s: float) -> None:
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            names = [path.name for path in run.glob("checkpoints/step-*")]
            if any(int(name.removeprefix("step-")) >= step for name in names):
                return
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        process.kill()
        pytest.fail(f"no step {step} in {patience_s} s: {process.communicate()}")

    return wait
