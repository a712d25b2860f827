"""Several ranks equal one, for whatever is trained; their checkpoints resume on any number."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.base.progress import ProgressBar, say
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import Checkpoint, newest_checkpoint
from headway.runs.load import run_weights, stored_recipe
from headway.training.ranks import Ranks, joined

JOBS = Path(__file__).with_name("rank_jobs.py")
STEPS, SAVED = 8, 4
TOLERANCE = 2e-5  # of weights of about 1, after steps of 1e-2
LAUNCH = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
LAUNCH |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def free_ports(n: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


@pytest.fixture(scope="module")
def folder(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What rank_jobs.py left: runs, and what it found."""
    made = tmp_path_factory.mktemp("ranks")
    settings: dict[str, Any] = {"steps": STEPS, "batch_tokens": 64, "accumulate": 4, "warmup": 2}
    settings |= {"log_every": 3, "evaluate_every": 4, "save_every": 2, "parallel": "shard"}
    settings |= {"eps": 1e-2}  # else Adam makes a step of the last bits of a gradient of nothing
    recipe = toy_recipe("transformer", **settings)
    recipe["model"] |= {"d_model": 16, "d_feed_forward": 32, "dropout": 0.2}
    recipe["evaluate"] = {"lines": 8, "beam": 1}
    (made / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    command = [sys.executable, str(JOBS), str(made), *free_ports(12)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            assert process.wait() == 0, "its message stands above"
        finally:  # where the test ran out of time, with all that it forked
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return made


@pytest.fixture(scope="module")
def unbroken(folder: Path) -> Path:
    """The run of that recipe that one rank trained."""
    recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    headway.train(recipe, out=folder / "unbroken")
    return folder / "unbroken"


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """What rank_jobs.py found."""
    return dict(json.loads((folder / "found.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("size", "n"), [("two", 42), ("four", 4)])
def test_ranks_are_one(size: str, n: int, found: dict[str, Any]) -> None:
    """B1, B11, B12: weights and losses of two steps, some of whose batches have too few rows."""
    assert len(found[size]) == n
    assert {job: far for job, far in found[size].items() if not far < TOLERANCE} == {}


def test_ranks_that_would_go_on_from_other_checkpoints_are_refused(found: dict[str, Any]) -> None:
    """Machines that share no disk, one of which has an older copy of the run."""
    assert found["stale"].startswith("the ranks have read different data, recipes or checkpoints; ")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_full_disk_is_told_of_by_every_rank(rank: int, folder: Path) -> None:
    """B7: the folder is named, and nothing is left in it."""
    said = (folder / f"full-said-{rank}").read_text(encoding="utf-8")
    assert said.startswith(f"{folder / 'full' / 'step-1'}: the file is larger than the system")
    assert list((folder / "full").iterdir()) == []


def test_shards_need_a_folder_that_all_ranks_see(folder: Path) -> None:
    first, second = (folder / f"disk-{n}-said-{n}" for n in (0, 1))
    assert "another rank has ended" in first.read_text(encoding="utf-8")
    said = second.read_text(encoding="utf-8")
    assert said.startswith(f"{folder / 'disk-1'}: rank 1 does not see the folder that the first")
    assert list((folder / "disk-0").iterdir()) == []


def test_a_rank_that_does_not_answer_is_not_waited_for(found: dict[str, Any]) -> None:
    assert "another rank has ended, or has not answered" in found["silence"]


def end(run: Path) -> tuple[dict[str, torch.Tensor], list[list[float]]]:
    """The tensors of a run's last checkpoint, and the losses that it logged."""
    last, passed_over = newest_checkpoint(run / "checkpoints")
    assert last is not None
    assert (last.step, passed_over) == (STEPS, [])
    keys = ("step", "nll", "grad_norm", "tokens", "perplexity")
    records = RunFolder(run).metrics.read()
    told = [[each.get(key, 0.0) for key in keys] for each in records if each["kind"] != "resume"]
    return {**last.weights(), **last.optimizer()}, told


@pytest.mark.parametrize("name", ["four", "alone", "copied", "parted", "four copies"])
def test_a_run_is_the_same_on_any_ranks_and_goes_on_with_others(
    name: str, folder: Path, unbroken: Path
) -> None:
    """B4, B11: begun on two with a part each, ended on four, on one, and on two with copies; begun
    with copies, ended on two with a part each, and on four.
    """
    if name == "alone":
        headway.train(None, out=folder / name, resume=True, train={"steps": STEPS})
    (ours, told), (theirs, wanted) = end(folder / name), end(unbroken)
    assert ours.keys() == theirs.keys()
    far = {key: float((ours[key] - theirs[key]).abs().max()) for key in ours}
    assert {key: value for key, value in far.items() if not value < 5e-4} == {}
    for one, other in zip(told, wanted, strict=True):
        assert one == pytest.approx(other, rel=1e-3)
    assert (folder / name / "report.html").exists()


def test_parts_on_the_disk_are_plain_and_whole(folder: Path, unbroken: Path) -> None:
    """B7, B15, H12: a file of each rank, no pickle, no wrapper's names, ties kept."""
    path = folder / "parts" / "checkpoints" / f"step-{SAVED}"
    names = {file.name for file in path.iterdir()}
    shards = {f"shard-{n:05}-model-00001-of-00001.safetensors" for n in (1, 2)}
    assert names == {*shards, "state.json", "complete.json"}
    assert json.loads((path / "complete.json").read_text(encoding="utf-8"))["files"].keys() == {
        *shards,
        "state.json",
    }
    (folder / "parts" / "model.safetensors").unlink()  # as a run that was not evaluated yet
    run = RunFolder(folder / "parts")
    with pytest.warns(UserWarning, match="weights of step 4"):
        weights = run_weights(run, stored_recipe(run))
    assert weights.keys() == newest_weights(unbroken).keys()
    shard = path / min(shards)
    shard.write_bytes(shard.read_bytes()[:-1])
    found, passed_over = newest_checkpoint(folder / "parts" / "checkpoints")
    assert isinstance(found, Checkpoint)
    assert found.step == 2
    assert "shard-00001-model-00001-of-00001.safetensors has" in passed_over[0]


def newest_weights(run: Path) -> dict[str, torch.Tensor]:
    found, _ = newest_checkpoint(run / "checkpoints")
    assert found is not None
    return found.weights()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_each_row_of_a_step_is_dealt_once(n: int, size: int) -> None:
    """B11: whatever the number of ranks, a step has all its rows, and each rank as many batches."""
    dealt = [Ranks(rank, size).deal(n) for rank in range(size)]
    assert len({len(each) for each in dealt}) == 1
    rows = [(b, row) for each in dealt for b, part, parts in each for row in range(24)[part::parts]]
    assert sorted(rows) == [(batch, row) for batch in range(n) for row in range(24)]
    assert (n % size == 0) == all(parts == 1 for each in dealt for *_, parts in each)


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the second of two."""
    for name, value in LAUNCH.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("second")
def test_the_first_rank_alone_speaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say("two")
    assert not ProgressBar("training", 3).live
    monkeypatch.setenv("RANK", "0")
    say("one")
    assert capsys.readouterr().err == "one\n"


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize(
    ("device", "what"),
    [
        ("mps", "several ranks cannot share the device mps"),
        ("cuda:0", "several ranks cannot share the device cuda:0"),
        ("cuda", "this machine has 1 GPUs, and torchrun started more processes"),
    ],
)
def test_each_rank_has_a_device_of_its_own(
    device: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match=what), joined(torch.device(device)):
        pass
