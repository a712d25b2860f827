"""The loop around the steps: hooks on time, windows that add up, signals obeyed, no noise."""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.base.errors import Interrupted
from headway.nn.dropout import Noise
from headway.training.loop import Hook, Trainer
from headway.training.state import TrainState, Window

Make = Callable[..., Trainer]
Weights = Callable[[Trainer], dict[str, Tensor]]
NEVER = 10**9
SUMS = ("objective", "nll", "tokens", "gradient_norm", "steps")


def nothing(_: TrainState) -> None:
    pass


def fail(_: TrainState) -> None:
    raise AssertionError("leave was called")


def logged(trainer: Trainer, every: int, *hooks: Hook) -> list[tuple[int, Window]]:
    """Run to the end; the windows that the log saw, and after which step."""
    seen: list[tuple[int, Window]] = []
    log = Hook(every, lambda state: seen.append((state.step, copy.copy(state.window))))
    trainer.run(log, hooks, leave=fail)
    return seen


def sums(window: Window) -> list[float]:
    return [getattr(window, name) for name in SUMS]


def before_each_loss(trainer: Trainer, call: Callable[[int], Any]) -> None:
    """Have `call(step)` called within the step, before its loss is computed."""
    right = trainer.objective

    def objective(model: Any, batch: Any, noise: Noise | None, dtype: str) -> Any:
        assert noise is not None
        call(noise.step)
        return right(model, batch, noise, dtype)

    trainer.objective = objective


def test_hooks_come_every_so_often_and_after_the_last_step(make: Make) -> None:
    calls: list[tuple[str, int]] = []

    def hook(name: str, every: int) -> Hook:
        return Hook(every, lambda state: calls.append((name, state.step)))

    trainer = make(steps=7)
    trainer.run(hook("log", 3), [hook("two", 2), hook("ten", 10), hook("seven", 7)], leave=fail)
    wanted = [("two", 2), ("log", 3), ("two", 4), ("log", 6), ("two", 6)]
    wanted += [("log", 7), ("two", 7), ("ten", 7), ("seven", 7)]
    assert calls == wanted
    # nothing is left to do, and so nothing is done
    trainer.run(hook("log", 1), [hook("one", 1)], leave=fail)
    assert len(calls) == len(wanted)


def test_a_logged_window_is_the_sum_of_its_steps(make: Make) -> None:
    """Also where the last window is a part of one: it stays, for a longer run to go on from."""
    each = [window for _, window in logged(make(steps=7), 1)]
    assert all(window.steps == 1 for window in each)
    trainer = make(steps=7)
    windows = logged(trainer, 3)
    assert [step for step, _ in windows] == [3, 6, 7]
    for (last, window), size in zip(windows, (3, 3, 1), strict=True):
        parts = [sums(one) for one in each[last - size : last]]
        assert sums(window) == pytest.approx([sum(column) for column in zip(*parts, strict=True)])
        assert window.seconds > 0.0
    assert trainer.state.window == windows[-1][1]
    assert trainer.state.tokens == sum(window.tokens for window in each)
    full = make(steps=6)
    logged(full, 3)
    assert full.state.window == Window()


def test_a_hook_may_evaluate(make: Make) -> None:
    """After a hook that puts the model into evaluation it trains on."""
    trainer = make(steps=4)
    trainer.model.eval()
    modes = []
    before_each_loss(trainer, lambda _: modes.append(trainer.model.training))
    logged(trainer, NEVER, Hook(1, lambda _: trainer.model.eval()))
    assert modes == [True] * 4


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_an_evaluation_changes_nothing(make: Make, weights_of: Weights, model: str) -> None:
    """B5: neither the draws of the global generators in a hook nor their number matter."""

    def evaluate(_: TrainState) -> None:
        torch.rand(random.randrange(1, 50))
        np.random.rand(3)  # noqa: NPY002 - somebody's evaluation may
        batch = trainer.batches.batch(0, np.arange(4))
        trainer.model.eval()
        with torch.no_grad():
            trainer.model(batch.source, batch.source_real, batch.target)

    found = []
    for hooks in ([], [Hook(1, evaluate)], [Hook(3, evaluate), Hook(2, evaluate)]):
        torch.manual_seed(len(hooks))
        trainer = make(model, accumulate=2)
        draws: list[Tensor] = []
        # a kernel that takes no seed would draw from the global generator as well
        before_each_loss(trainer, lambda _, draws=draws: draws.append(torch.rand(2)))
        windows = [sums(window) for _, window in logged(trainer, 1, *hooks)]
        found.append((windows, torch.stack(draws), weights_of(trainer)))
    for windows, draws_, weights in found[1:]:
        assert windows == found[0][0]
        assert torch.equal(draws_, found[0][1])
        assert all(torch.equal(weights[name], value) for name, value in found[0][2].items())
    assert len(found[0][1].unique()) > 20  # each step has draws of its own


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Whatever a test does, the handlers are put back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    after = {number: signal.getsignal(number) for number in before}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before


def interrupting(trainer: Trainer, step: int, *numbers: int) -> None:
    """Have those signals arrive within that step."""

    def send(now: int) -> None:
        if now == step:
            for number in numbers:
                os.kill(os.getpid(), number)

    before_each_loss(trainer, send)


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM] * 3])
def test_a_signal_ends_the_run_after_the_step_in_hand(
    make: Make, weights_of: Weights, numbers: list[int]
) -> None:
    """B8: the step is finished and saved, once; the hooks that were due have been called."""
    trainer = make(steps=8)
    interrupting(trainer, 4, *numbers)
    calls: list[tuple[str, int]] = []
    log = Hook(2, lambda state: calls.append(("log", state.step)))
    hook = Hook(1, lambda state: calls.append(("hook", state.step)))
    with pytest.raises(Interrupted, match="stopped and saved after step 4 of 8") as caught:
        trainer.run(log, [hook], lambda state: calls.append(("leave", state.step)))
    assert caught.value.signal == numbers[0]
    assert calls[-3:] == [("log", 4), ("hook", 4), ("leave", 4)]
    assert [name for name, _ in calls].count("leave") == 1
    short = make(steps=4)
    logged(short, NEVER)
    left, whole = weights_of(trainer), weights_of(short)
    assert all(torch.equal(left[name], value) for name, value in whole.items())


def test_a_second_control_c_stops_at_once(make: Make) -> None:
    trainer = make(steps=8)
    interrupting(trainer, 4, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(Hook(1, nothing), [], leave=fail)
    assert trainer.state.step == 3


def test_a_signal_in_the_last_step_lets_the_run_end(make: Make) -> None:
    trainer = make(steps=5)
    interrupting(trainer, 5, signal.SIGTERM)
    assert [step for step, _ in logged(trainer, NEVER)] == [5]


def test_a_signal_in_a_hook_counts_too(make: Make) -> None:
    trainer = make(steps=5)
    left: list[int] = []
    hook = Hook(2, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        trainer.run(Hook(1, nothing), [hook], lambda state: left.append(state.step))
    assert left == [2]


def test_an_error_in_a_hook_comes_out(make: Make) -> None:
    def broken(_: TrainState) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make().run(Hook(1, nothing), [Hook(2, broken)], leave=fail)


def test_it_trains_outside_the_main_thread(make: Make) -> None:
    """There no signal arrives, and Python lets nobody listen."""
    trainer = make(steps=3)
    thread = threading.Thread(target=logged, args=(trainer, 1))
    thread.start()
    thread.join(timeout=60)
    assert trainer.state.step == 3


def test_it_says_nothing_where_nobody_watches(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(make(), 1)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
