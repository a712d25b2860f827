"""The real command, stopped by real signals: what it saved goes on as if nothing had been."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.runs.info import describe
from headway.settings.recipe import load_recipe

COMMAND = Path(sys.executable).with_name("headway")
STEPS = 70
PATIENCE_S = 60


@pytest.fixture(scope="module")
def recipe(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Dropout, three batches a step, and nothing that ends where checkpoints do."""
    table = toy_recipe(
        "transformer",
        steps=STEPS,
        batch_tokens=120,
        accumulate=3,
        log_every=7,
        save_every=4,
        evaluate_every=50,
    )
    table["model"] |= {"d_model": 16, "d_feed_forward": 32, "dropout": 0.2, "n_decoder_layers": 1}
    table["evaluate"] = {"lines": 8, "beam": 1}
    path = tmp_path_factory.mktemp("stops") / "recipe.toml"
    path.write_text(load_recipe(table).to_toml(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def unbroken(recipe: Path) -> dict[str, Any]:
    """What a run that nobody stops comes to."""
    headway.train(recipe, out=recipe.parent / "unbroken")
    return outcome(recipe.parent / "unbroken")


def outcome(run: Path) -> dict[str, Any]:
    """Weights, optimiser, position in the data and logged losses: all but clocks."""
    found, passed_over = newest_checkpoint(run / "checkpoints")
    assert found is not None
    assert passed_over == []
    assert found.step == STEPS
    tensors = {**found.weights(), **found.optimizer()}
    state = found.state()
    losses = [
        [record[name] for name in ("step", "tokens", "objective", "nll", "grad_norm")]
        for record in RunFolder(run).metrics.read()
        if record["kind"] == "train"
    ]
    return {
        "position": [state[name] for name in ("epoch", "batch", "tokens", "best", "best_step")],
        "losses": losses,
        **{name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
    }


def changed(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def environment() -> dict[str, str]:
    """One thread, and output that waits in a buffer, as it does for most people."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    )


def test_killed_and_resumed_equals_unbroken(
    recipe: Path, unbroken: dict[str, Any], tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    run, draw = tmp_path / "run", random.Random()
    process = start("train", recipe, "--out", run)
    wait_for(draw.randint(4, STEPS // 2), run, process, PATIENCE_S)
    time.sleep(draw.uniform(0, 0.05))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (run / "report.html").exists()
    process = start("train", "--resume", "--out", run)
    said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    records = RunFolder(run).metrics.read()
    (resumed,) = (record["step"] for record in records if record["kind"] == "resume")
    assert 0 < resumed < STEPS
    assert f"resumed {run} after step {resumed} of {STEPS}" in said[1]
    assert changed(outcome(run), unbroken) == []
    assert (run / "report.html").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_leaves(
    number: signal.Signals,
    recipe: Path,
    unbroken: dict[str, Any],
    tmp_path: Path,
    wait_for: Callable[..., None],
) -> None:
    run = tmp_path / "run"
    process = start("train", recipe, "--out", run)
    wait_for(4, run, process, PATIENCE_S)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, err
    assert out == ""
    assert "Traceback" not in err
    (step,) = map(int, re.findall(rf"stopped and saved after step (\d+) of {STEPS}$", err, re.M))
    assert err.endswith(f"\ngo on with: headway train --resume --out {run}\n")
    found, _ = newest_checkpoint(run / "checkpoints")
    assert found is not None
    assert found.step == step < STEPS
    assert describe(run)["trained"].startswith(f"{step} of {STEPS} steps")
    headway.train(None, out=run, resume=True)
    assert changed(outcome(run), unbroken) == []


def test_ctrl_c_before_the_first_step_leaves_no_run(
    recipe: Path, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.runs.tasks import translation

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(translation, "prepare", interrupted)
    said = cli("train", recipe, "--out", tmp_path / "run")
    assert said.code == 128 + signal.SIGINT
    assert "Traceback" not in said.err
    assert not (tmp_path / "run").exists()


def test_a_reader_who_leaves_is_no_mistake() -> None:
    process = start("recipes", "cldr/transformer")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(PATIENCE_S) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_on_a_full_disk_is_a_mistake() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [COMMAND, "recipes"],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (
        2,
        "error: standard output: no space left on the disk\n",
    )


def test_letters_that_a_terminal_lacks_are_escaped(
    trained: Callable[[str], Path], cli: Callable[..., Any]
) -> None:
    said = cli("info", trained("plain"), encoding="latin-1")
    assert said.code == 0
    assert b"fr \\u2192 en\n" in said.out
