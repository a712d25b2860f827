"""A training that was stopped and goes on is, bit for bit, the one that was not."""

from __future__ import annotations

import copy
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.base.errors import Interrupted
from headway.training.loop import Hook, Trainer
from headway.training.optimizer import optimizer_tensors, restore_optimizers
from headway.training.state import TrainState, Window

Make = Callable[..., Trainer]
Weights = Callable[[Trainer], dict[str, Tensor]]


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: str

    @classmethod
    def of(cls, trainer: Trainer) -> Saved:
        return cls(
            copy.deepcopy(trainer.model.state_dict()),
            {k: v.clone() for k, v in optimizer_tensors(trainer.optimizers, trainer.model).items()},
            json.dumps(trainer.state.to_table()),
        )

    def resume(self, make: Make, **settings: Any) -> Trainer:
        """Another process, as it were: other first weights, all else from what was saved."""
        state = TrainState.from_table(json.loads(self.state))
        trainer = make(**settings, state=state, weights_seed=99)
        trainer.model.load_state_dict(self.weights)
        restore_optimizers(trainer.optimizers, trainer.model, self.optimizer)
        torch.manual_seed(99)
        return trainer


def run(trainer: Trainer, stop_after: int | None = None) -> tuple[list[tuple[Any, ...]], Saved]:
    """What was logged every two steps, and what was saved at the end or at the stop."""
    lines: list[tuple[Any, ...]] = []
    saved: list[Saved] = []

    def log(state: TrainState) -> None:
        window = state.window
        values = window.objective, window.nll, window.tokens, window.gradient_norm, window.steps
        lines.append((state.step, state.tokens, *values))

    def stop(state: TrainState) -> None:
        if state.step == stop_after:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        hook = Hook(1, stop)
        trainer.run(Hook(2, log), [hook], leave=lambda _: saved.append(Saved.of(trainer)))
    except Interrupted:
        assert stop_after is not None
    return lines, saved[0] if saved else Saved.of(trainer)


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
@pytest.mark.parametrize(
    ("accumulate", "stop", "position"),
    [
        (1, 3, (0, 3)),
        (1, 7, (0, 7)),  # at the edge of an epoch of 7 batches
        (3, 2, (0, 6)),  # the next step takes its batches from two epochs
        (3, 4, (1, 5)),
        (3, 7, (2, 7)),
    ],
)
def test_a_resumed_training_is_the_unbroken_one(
    make: Make,
    weights_of: Weights,
    model: str,
    accumulate: int,
    stop: int,
    position: tuple[int, int],
) -> None:
    """B4: with dropout on; weights, optimiser, logged losses, batches, position."""
    settings = {"model": model, "accumulate": accumulate, "steps": 9, "batch_tokens": 80}
    assert len(make(**settings).batches.epoch(0)) == 7
    unbroken = make(**settings)
    lines, _ = run(unbroken)
    first = make(**settings)
    lines_before, saved = run(first, stop)
    second = saved.resume(make, **settings)
    state = second.state
    assert (state.step, (state.epoch, state.batch)) == (stop, position)
    lines_after, _ = run(second)
    assert lines_before + lines_after == lines
    assert first.batches.seen + second.batches.seen == unbroken.batches.seen  # type: ignore[attr-defined]
    assert len(unbroken.batches.seen) == 9 * accumulate  # type: ignore[attr-defined]
    one, other = weights_of(second), weights_of(unbroken)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], value) for name, value in other.items())
    tables = [{**trainer.state.to_table(), "seconds": 0} for trainer in (second, unbroken)]
    for table in tables:
        table["window"]["seconds"] = 0
    assert tables[0] == tables[1]


def test_dropout_is_on_in_what_is_compared(make: Make) -> None:
    """Else the test above says nothing about it: another seed, with the same data, differs."""
    windows = []
    for seed in (1, 1, 2):
        trainer = make("transformer", seed=seed)
        trainer.advance(iter([(0, 1, make().batches.epoch(0)[0])]))
        windows.append(trainer.state.window.objective)
    assert windows[0] == windows[1] != windows[2]


def test_a_longer_training_goes_on_from_a_finished_one(make: Make, weights_of: Weights) -> None:
    """Its partial last window too, where the schedule does not look at the number of steps."""
    settings = {"schedule": "inverse_sqrt", "batch_tokens": 80}
    whole = make(**settings, steps=8)
    lines, _ = run(whole)
    short_lines, saved = run(make(**settings, steps=5))
    longer = saved.resume(make, **settings, steps=8)
    longer_lines, _ = run(longer)
    assert [line[0] for line in short_lines] == [2, 4, 5]
    assert short_lines[:2] + longer_lines == lines
    one, other = weights_of(longer), weights_of(whole)
    assert all(torch.equal(one[name], value) for name, value in other.items())


def test_a_state_survives_json() -> None:
    state = TrainState(
        step=7,
        epoch=2,
        batch=3,
        tokens=10**12,
        seconds=0.1 + 0.2,
        skipped=1,
        best=-1.0 / 3.0,
        best_step=6,
        window=Window(objective=2.0 / 3.0, nll=1e-300, tokens=5, gradient_norm=0.7, steps=1),
    )
    assert TrainState.from_table(json.loads(json.dumps(state.to_table()))) == state
    fresh = TrainState()
    assert TrainState.from_table(json.loads(json.dumps(fresh.to_table()))) == fresh
    assert fresh.best is None
