"""How a training ends: early, if waiting brings nothing, and with the mean of its last saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import whole_checkpoints
from headway.evaluate.likelihood import Likelihood
from headway.runs.evaluate import Evaluation
from headway.runs.hooks import RunHooks
from headway.runs.info import describe
from headway.runs.tasks import translation
from headway.training.loop import NotFinite, Trainer
from headway.training.state import TrainState

TranslationRecipe = Callable[..., dict[str, Any]]


def small(toy_recipe: TranslationRecipe, *, valid: bool = True, **train: Any) -> dict[str, Any]:
    recipe = toy_recipe("transformer", log_every=7, **train)
    recipe["model"] |= {"d_model": 16, "d_feed_forward": 32, "n_decoder_layers": 1}
    recipe["evaluate"] = {"lines": 8}
    if not valid:
        del recipe["data"]["valid"]
    return recipe


def steps_on_disk(run: Path) -> list[int]:
    return sorted(
        int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*")
    )


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in RunFolder(run).metrics.read() if record["kind"] == kind]


def test_without_validation_the_mean_of_the_last_saves_is_kept(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    recipe = small(toy_recipe, valid=False, steps=45, save_every=10, average=3, keep=1)
    headway.train(recipe, out=tmp_path / "run")
    assert steps_on_disk(tmp_path / "run") == [20, 30, 40, 45]
    saved = [
        each.weights() for each in whole_checkpoints(tmp_path / "run/checkpoints", [30, 40, 45])
    ]
    for name, kept in RunFolder(tmp_path / "run").weights().items():
        parts = torch.stack([weights[name].double() for weights in saved])
        assert torch.equal(kept, parts.mean(dim=0).float()), name
        assert name.endswith("bias") or not torch.equal(parts[0], parts[1]), name


def test_the_mean_is_kept_where_it_is_better(toy_recipe: TranslationRecipe, tmp_path: Path) -> None:
    recipe = small(toy_recipe, steps=60, save_every=5, evaluate_every=20, average=4)
    translator = headway.train(recipe, out=tmp_path)
    mean = records(tmp_path, "average")
    assert [(record["step"], record["of"]) for record in mean] == [(60, 4)]
    candidates = [record["nll"] for record in [*records(tmp_path, "valid"), *mean]]
    assert len(set(candidates)) == 4
    files = [Path(recipe["data"]["valid"][side]) for side in ("source", "target")]
    pairs = [file.read_text(encoding="utf-8").splitlines()[:8] for file in files]
    found = translator.likelihoods(*pairs)
    nll = sum(each.nll for each in found) / sum(each.tokens for each in found)
    assert nll == pytest.approx(min(candidates), rel=1e-6)


def test_a_mean_that_was_the_best_is_told_and_is_what_is_to_beat(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, losses = translation.evaluate_pairs, [3.0, 2.0, 1.0, 1.5, 1.2, 1.4, 1.3, 0.5, 0.7]

    def judged(*given: Any, **settings: Any) -> Evaluation:
        found = real(*given, **settings)
        return replace(found, likelihood=Likelihood(losses.pop(0), tokens=1))

    monkeypatch.setattr(translation, "evaluate_pairs", judged)
    recipe = small(toy_recipe, steps=4, evaluate_every=2, save_every=2, average=2)
    headway.train(recipe, out=tmp_path)
    mean = RunFolder(tmp_path).weights()
    assert describe(tmp_path)["best weights"] == "the mean of the last 2 saves, at step 4"

    for steps in (6, 8):
        headway.train(None, out=tmp_path, resume=True, train={"steps": steps})
        kept = RunFolder(tmp_path).weights()
        assert [name for name in mean if not torch.equal(mean[name], kept[name])] == []
        assert describe(tmp_path)["best weights"] == "the mean of the last 2 saves, at step 4"
        means = [(each["step"], each["best"]) for each in records(tmp_path, "average")]
        assert means == [(4, True), (steps, False)]

    headway.train(None, out=tmp_path, resume=True, train={"steps": 10})
    assert losses == []
    assert describe(tmp_path)["best weights"] == "of step 10"


def test_a_stopped_run_ends_with_the_same_mean(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    """Saves that a stop forced are not of those that are averaged, and push none of them out."""
    settings = {"save_every": 10, "average": 3, "keep": 1}
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    headway.train(small(toy_recipe, valid=False, steps=30, **settings), out=unbroken)
    headway.train(small(toy_recipe, valid=False, steps=11, **settings), out=broken)
    for steps in (12, 13, 17, 30):
        headway.train(None, out=broken, resume=True, train={"steps": steps})
    ours, theirs = (RunFolder(run).weights() for run in (broken, unbroken))
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def test_waiting_ends(toy_recipe: TranslationRecipe, tmp_path: Path) -> None:
    """A rate that changes nothing: the first evaluation stays the best."""
    recipe = small(
        toy_recipe, steps=100, learning_rate=1e-9, evaluate_every=13, save_every=50, patience=2
    )
    recipe["evaluate"]["metric"] = "exact_match"
    headway.train(recipe, out=tmp_path)
    assert [record["step"] for record in records(tmp_path, "valid")] == [13, 26, 39]
    assert steps_on_disk(tmp_path) == [39]
    last = records(tmp_path, "train")[-1]
    assert (last["step"], last.get("partial")) == (39, True)
    headway.train(None, out=tmp_path, resume=True)
    assert [record["step"] for record in records(tmp_path, "valid")] == [13, 26, 39]
    headway.train(None, out=tmp_path, resume=True, train={"patience": 3})
    assert [record["step"] for record in records(tmp_path, "valid")] == [13, 26, 39, 52]
    steps = [record["step"] for record in records(tmp_path, "train")]
    assert steps == [7, 14, 21, 28, 35, 42, 49, 52]


def test_only_evaluations_in_a_row_are_waited_for(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = [True, False, True, False, False]
    asked: list[int] = []

    def judge(self: RunHooks, state: TrainState, weights: object, record: object) -> bool:
        asked.append(state.step)
        self.folder.save_weights(self.trainer.model.state_dict())
        return better[len(asked) - 1]

    monkeypatch.setattr(RunHooks, "_judge", judge)
    headway.train(small(toy_recipe, steps=20, evaluate_every=2, patience=2), out=tmp_path)
    assert asked == [2, 4, 6, 8, 10]


def test_patience_needs_something_to_wait_for(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"train\.patience.*data\.valid"):
        headway.train(small(toy_recipe, valid=False, patience=2), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_error_while_judging_costs_no_training(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RunHooks.on_evaluate

    def fails(self: RunHooks, state: TrainState) -> None:
        if state.step == 6:
            raise KeyError("an error of ours")
        real(self, state)

    table = small(toy_recipe, steps=8, evaluate_every=3, save_every=8)
    headway.train(table, out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(RunHooks, "on_evaluate", fails)
        with pytest.raises(KeyError, match="an error of ours"):
            headway.train(table, out=tmp_path / "run")
    assert steps_on_disk(tmp_path / "run") == [6]
    headway.train(None, out=tmp_path / "run", resume=True)
    one, other = (RunFolder(tmp_path / name).weights() for name in ("whole", "run"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_error_within_a_step_is_not_saved(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some weights may have made the step, and others not."""
    real = Trainer.advance

    def advance(self: Trainer, batches: Any) -> None:
        if self.state.step == 3:
            monkeypatch.setattr(self.optimizers[0], "step", lambda: {}["an error of ours"])
        real(self, batches)

    monkeypatch.setattr(Trainer, "advance", advance)
    with pytest.raises(KeyError, match="an error of ours"):
        headway.train(small(toy_recipe, save_every=8), out=tmp_path)
    assert steps_on_disk(tmp_path) == []


@pytest.mark.parametrize("spoilt", [False, True])
def test_what_is_not_finite_is_not_saved(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: bool
) -> None:
    """A loss that is not finite leaves a checkpoint of the step before, unless that is spoilt."""
    real = Trainer.advance

    def advance(self: Trainer, batches: Any) -> None:
        if self.state.step < 3:
            return real(self, batches)
        if spoilt:
            with torch.no_grad():
                self.weights[-1].fill_(torch.nan)
        raise NotFinite("the loss is not finite")

    monkeypatch.setattr(Trainer, "advance", advance)
    with pytest.raises(NotFinite):
        headway.train(small(toy_recipe), out=tmp_path)
    assert steps_on_disk(tmp_path) == ([] if spoilt else [3])
