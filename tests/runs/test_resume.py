"""A run that was stopped and resumed equals one that was not, bit for bit (trap B4)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import headway
from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import newest_checkpoint

TranslationRecipe = Callable[..., dict[str, Any]]
CLOCKS = ("seconds", "tokens_per_s", "utilisation")
STEPS = 30


def outcome(run: Path) -> dict[str, Any]:
    """All that must be the same, without clocks: tensors, position in the data, records."""
    found, passed_over = newest_checkpoint(run / "checkpoints")
    assert found is not None
    assert passed_over == []
    state = found.state()
    for clock in (state, state["window"]):
        del clock["seconds"]
    records = RunFolder(run).metrics.read()
    plain = [
        {name: value for name, value in record.items() if name not in CLOCKS}
        for record in records
        if record["kind"] in ("train", "valid")
    ]
    tensors = {"weights": found.weights(), "optimizer": found.optimizer()}
    tensors["best"] = RunFolder(run).weights()
    values = {
        f"{kind} {name}": tensor.numpy().tobytes()
        for kind, group in tensors.items()
        for name, tensor in group.items()
    }
    return {"state": state, "records": plain, **values}


def changed(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What differs; a list of names says more than two dumps of bytes."""
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


@pytest.fixture(scope="module")
def settings(toy_recipe: TranslationRecipe) -> dict[str, Any]:
    """Dropout, three batches a step, log windows that no checkpoint ends with."""
    recipe = toy_recipe(
        "transformer",
        steps=STEPS,
        batch_tokens=120,
        accumulate=3,
        log_every=7,
        save_every=5,
        evaluate_every=13,
        keep=2,
    )
    recipe["model"] |= {"d_model": 16, "d_feed_forward": 32, "dropout": 0.2}
    recipe["model"] |= {"n_decoder_layers": 1, "attention_dropout": 0.1}
    recipe["evaluate"] = {"lines": 8}
    return recipe


@pytest.fixture(scope="module")
def unbroken(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was never stopped."""
    run = tmp_path_factory.mktemp("resume") / "unbroken"
    headway.train(settings, out=run)
    return run


def cut_back(unbroken: Path, run: Path, settings: dict[str, Any], step: int) -> Path:
    """A run that was killed some time after its checkpoint of `step`, as the disk has it."""
    with pytest.MonkeyPatch.context() as patch:
        from headway.training.loop import Trainer

        advance = Trainer.advance

        def killed(self: Trainer, batches: Any) -> None:
            if self.state.step == step + 3:
                raise Killed
            advance(self, batches)

        patch.setattr(Trainer, "advance", killed)
        with pytest.raises(Killed):
            headway.train(settings, out=run)
    return run


class Killed(BaseException):
    """Stands for SIGKILL, which leaves no time to save; tests/cli sends the real one."""


@pytest.mark.parametrize("step", [5, 10])
def test_resumed_equals_unbroken(
    step: int, settings: dict[str, Any], unbroken: Path, tmp_path: Path
) -> None:
    run = cut_back(unbroken, tmp_path / "run", settings, step)
    found, _ = newest_checkpoint(run / "checkpoints")
    assert found is not None
    state = found.state()
    assert found.step == step
    assert state["batch"] % 3 != 0 or state["epoch"] == 0  # the epoch ended inside a step
    assert 0 < state["window"]["steps"] < 7
    time.sleep(1.1)  # TensorBoard orders its files by the second, then by a number as a text
    headway.train(None, out=run, resume=True)
    assert changed(outcome(run), outcome(unbroken)) == []
    records = RunFolder(run).metrics.read()
    resumed = [r for r in records if r["kind"] == "resume"]
    assert resumed == [{"kind": "resume", "step": step}]
    board = EventAccumulator(str(run / "tensorboard")).Reload()  # has no step twice either
    steps = [event.step for event in board.Scalars("train/nll")]
    assert steps == [r["step"] for r in records if r["kind"] == "train"]


def test_a_longer_run_equals_a_finished_one_that_goes_on(
    settings: dict[str, Any], unbroken: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    headway.train(settings, out=run, **{"train.steps": 17, "train.evaluate_every": 1000})
    assert RunFolder(run).metrics.read()[-1]["kind"] == "test"
    headway.train(None, out=run, resume=True, **{"train.steps": STEPS})
    ours, theirs = outcome(run), outcome(unbroken)
    for result in (ours, theirs):  # what the end of the first run added: one more evaluation
        result["records"] = [r for r in result["records"] if r["kind"] == "train"]
        for name in ("best", "best_step"):
            del result["state"][name]
    names = [name for name in changed(ours, theirs) if not name.startswith("best ")]
    assert names == []
    assert RunFolder(run).recipe()["train"]["steps"] == STEPS
    (resumed,) = (r for r in RunFolder(run).metrics.read() if r["kind"] == "resume")
    assert resumed["changed"] == {"train.steps": [17, STEPS]}
    kinds = [record["kind"] for record in RunFolder(run).metrics.read()]
    assert (kinds.count("resume"), kinds.count("test"), kinds[-1]) == (1, 1, "test")


def test_a_finished_run_only_writes_its_end_again(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    (run / "report.html").unlink()
    before = outcome(run)
    headway.train(None, out=run, resume=True)
    assert changed(outcome(run), before) == []
    assert (run / "report.html").exists()
    assert (
        f"after step {STEPS} of {STEPS}: there is nothing left to train" in capsys.readouterr().err
    )


def test_what_is_done_differently_from_here_on_is_told_and_kept(
    settings: dict[str, Any],
    unbroken: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = cut_back(unbroken, tmp_path / "run", settings, step=25)
    began = RunFolder(run).recipe()["train"]["learning_rate"]
    headway.train(None, out=run, resume=True, **{"train.learning_rate": 1e-4})
    assert f"train.learning_rate: 0.0001 from here on; it was {began}" in capsys.readouterr().err
    (record,) = (r for r in RunFolder(run).metrics.read() if r["kind"] == "resume")
    assert record["changed"] == {"train.learning_rate": [began, 1e-4]}


def test_a_broken_checkpoint_is_passed_over_and_told_of(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    weights = run / "checkpoints" / f"step-{STEPS}" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    headway.train(None, out=run, resume=True)
    said = capsys.readouterr().err
    assert f"step-{STEPS}: model.safetensors has " in said
    assert "passed over" in said
    assert f"resumed {run} after step 25 of {STEPS}" in said
    assert changed(outcome(run), outcome(unbroken)) == []


def test_no_whole_checkpoint_is_a_mistake(unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    for record in run.glob("checkpoints/*/complete.json"):
        record.unlink()
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="no checkpoint of this run is whole"):
        headway.train(None, out=run, resume=True)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_killed_before_its_first_checkpoint_begins_again_and_says_so(
    settings: dict[str, Any],
    unbroken: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = cut_back(unbroken, tmp_path / "run", settings, step=-2)
    assert not (run / "checkpoints").exists()
    headway.train(None, out=run, resume=True)
    assert "no checkpoint yet, so training begins at step 0" in capsys.readouterr().err
    assert changed(outcome(run), outcome(unbroken)) == []
    assert {"kind": "resume", "step": 0} in RunFolder(run).metrics.read()


def test_resuming_with_other_threads_is_told(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    torch.set_num_threads(2)
    try:
        headway.train(None, out=run, resume=True)
    finally:
        torch.set_num_threads(1)
    assert "trained with 1 threads and goes on with 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("model.d_model", 32, "'model' of a run that has begun cannot change"),
        ("tokenizer.lowercase", True, "'tokenizer' of a run"),
        ("data.max_tokens", 9, "'data' of a run"),
        ("seed", 5, "'seed' of a run"),
        ("train.dtype", "auto", "'train.dtype' of a run that has begun cannot change"),
        ("train.step", 5, "did you mean 'steps'"),
    ],
)
def test_what_made_the_weights_cannot_change(
    key: str, value: object, what: str, unbroken: Path
) -> None:
    before = (unbroken / "recipe.toml").read_bytes()
    with pytest.raises(UserError, match=what):
        headway.train(None, out=unbroken, resume=True, **{key: value})
    assert (unbroken / "recipe.toml").read_bytes() == before


def test_changed_data_are_refused(toy: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    files = shutil.copytree(toy, tmp_path / "toy")
    recipe = json.loads(json.dumps(settings).replace(str(toy), str(files)))
    headway.train(recipe, out=tmp_path / "run", **{"train.steps": 1})
    lines = (files / "valid.en").read_text(encoding="utf-8").replace("cat", "dog", 1)
    (files / "valid.en").write_text(lines, encoding="utf-8")
    with pytest.raises(UserError, match="the valid data are not what this run began with"):
        headway.train(None, out=tmp_path / "run", resume=True, **{"train.steps": 2})


def test_resuming_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        headway.train(None, out=tmp_path / "nothing", resume=True)
    with pytest.raises(UserError, match="no run is named"):
        headway.train(None, resume=True)
