"""The real command under torchrun: ranks that die, are stopped, and go on as one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.settings.recipe import load_recipe

STEPS = 200
PATIENCE_S = 90
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def recipe(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Dropout, and two batches a step: one for each rank."""
    table = toy_recipe(
        "transformer",
        steps=STEPS,
        batch_tokens=120,
        accumulate=2,
        log_every=10,
        save_every=4,
        evaluate_every=STEPS,
    )
    table["model"] |= {"d_model": 16, "d_feed_forward": 32, "dropout": 0.2, "n_decoder_layers": 1}
    table["evaluate"] = {"lines": 8, "beam": 1}
    path = tmp_path_factory.mktemp("torchrun") / "recipe.toml"
    path.write_text(load_recipe(table).to_toml(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def unbroken(recipe: Path) -> list[float]:
    """The losses of that recipe on one rank."""
    run = recipe.parent / "unbroken"
    headway.train(recipe, out=run)
    return losses(run)


def losses(run: Path) -> list[float]:
    return [each["nll"] for each in RunFolder(run).metrics.read() if each["kind"] == "train"]


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TORCHRUN, "-m", "headway", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def last_step(run: Path) -> int:
    found, passed_over = newest_checkpoint(run / "checkpoints")
    assert found is not None
    assert passed_over == []
    return found.step


@pytest.mark.parametrize("way", ["replicate", "shard"])
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are read from /proc")
def test_a_killed_rank_ends_the_others_and_the_run_goes_on(
    way: str, recipe: Path, unbroken: list[float], tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    run = tmp_path / "run"
    process = start("train", recipe, "--out", run, "--set", f"train.parallel={way}")
    wait_for(4, run, process, PATIENCE_S)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
    os.kill(int(children.split()[1]), signal.SIGKILL)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert said.count("error: another rank has ended, or has not answered") == 1
    assert "Traceback" not in said.partition("another rank")[0]
    assert "find_unused_parameters" not in said
    killed_at = last_step(run)
    assert killed_at < STEPS
    assert not (run / "report.html").exists()

    process = start("train", "--resume", "--out", run)
    wait_for(killed_at + 4, run, process, PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    (stopped,) = re.findall(rf"^stopped and saved after step (\d+) of {STEPS}$", said, re.MULTILINE)
    assert last_step(run) == int(stopped) < STEPS

    headway.train(None, out=run, resume=True)
    ours = losses(run)
    assert ours == pytest.approx(unbroken, rel=0.02)  # 200 steps enlarge the last digits
    assert ours[:3] == pytest.approx(unbroken[:3], rel=1e-4)
