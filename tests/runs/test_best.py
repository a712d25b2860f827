"""Best weights that are newer than the checkpoint from which a run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import headway
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import whole_checkpoints

Cut = Callable[..., Path]
WORSE = {"train.learning_rate": 300.0}  # nothing gets better by it


class Killed(BaseException):
    """Stands for SIGKILL, which leaves no time to save."""


@pytest.fixture
def cut(toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path) -> Cut:
    """Makes a run that was killed as the weights of step 6 were written, before their save."""

    def made(**train: int) -> Path:
        recipe = toy_recipe("transformer", steps=8, log_every=2, **train)
        recipe["model"] |= {"d_model": 16, "d_feed_forward": 32, "n_decoder_layers": 1}
        recipe["evaluate"] = {"lines": 8, "metric": "loss"}
        headway.train(recipe, out=tmp_path / "unbroken")
        write = RunFolder.save_weights

        def killed(self: RunFolder, weights: dict[str, Tensor]) -> None:
            write(self, weights)
            if self.metrics.read()[-1]["step"] == 6:
                raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFolder, "save_weights", killed)
            with pytest.raises(Killed):
                headway.train(recipe, out=tmp_path / "run")
        return tmp_path / "run"

    return made


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_those_of_a_branch_that_is_no_more_are_taken_from_the_checkpoint(cut: Cut) -> None:
    run = cut(evaluate_every=2, save_every=4)
    headway.train(None, out=run, resume=True, **WORSE)
    (best,) = whole_checkpoints(run / "checkpoints", [4])
    assert same(RunFolder(run).weights(), best.weights())


def test_those_that_no_checkpoint_has_are_lost(
    cut: Cut, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the resumed run was killed at once, and is resumed with nothing changed."""
    run = cut(evaluate_every=3, save_every=4)
    kept = RunFolder(run).weights()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.training.loop.Trainer.advance", _die)
        with pytest.raises(Killed):
            headway.train(None, out=run, resume=True, **WORSE)
    said = capsys.readouterr().err
    assert "the best weights, of step 3, are lost (those that are kept are of a later" in said
    headway.train(None, out=run, resume=True)
    assert not same(RunFolder(run).weights(), kept)
    judged = [each for each in RunFolder(run).metrics.read() if each["kind"] == "valid"]
    best = max(judged[1:], key=lambda each: float(each["worth"]))
    assert [each["step"] for each in judged if each["best"]][-1] == best["step"]


@pytest.mark.parametrize("every", [2, 3])
def test_steps_that_are_made_alike_have_the_same_best(every: int, cut: Cut) -> None:
    run = cut(evaluate_every=every, save_every=4)
    headway.train(None, out=run, resume=True)
    unbroken = run.parent / "unbroken"
    assert same(RunFolder(run).weights(), RunFolder(unbroken).weights())
    found = [
        [(each["step"], each["best"]) for each in RunFolder(path).metrics.read() if "best" in each]
        for path in (run, unbroken)
    ]
    assert found[0] == found[1]


def _die(*_: object) -> None:
    raise Killed
