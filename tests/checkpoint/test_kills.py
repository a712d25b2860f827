"""A kill at any moment of saving leaves a loadable checkpoint (trap B7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_saves.py")


def test_random_kills_leave_a_whole_checkpoint() -> None:
    assert run("--kills", "12").startswith("12 kills, each left a whole checkpoint")


def test_a_kill_before_any_change_of_the_disk_leaves_a_whole_checkpoint() -> None:
    said = run("--every-call")
    assert said.endswith(" kills, each left a whole checkpoint\n")
    assert int(said.split()[0]) > 40


def run(*options: str) -> str:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    command = [sys.executable, str(SCRIPT), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
