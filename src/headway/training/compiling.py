"""Training through torch.compile: where it pays for itself, and without it where it fails.

What is compiled are the stacks of blocks, in training alone: evaluation and decoding have other
shapes at every step. On a CPU it makes a step slower (benchmarks/train_compiled.py).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from headway.base.progress import say
from headway.nn.stack import stacks_of
from headway.settings.training import TrainSettings
from headway.training.loop import NotFinite, Trainer

STEPS = 3  # timed after the one that compiles
SHORTEST = 60.0  # seconds of a training; below, compiling alone takes longer


class Trial(NamedTuple):
    """Seconds of the first step, and of the fastest one after it."""

    first: float
    later: float


def may_compile(settings: TrainSettings, device: torch.device) -> bool:
    """Whether it is worth a trial where the settings leave it open."""
    return settings.compile == "auto" and device.type != "cpu" and settings.parallel != "shard"


def compiles_here(trainer: Trainer) -> bool:
    """Whether to compile: as asked, or where the whole training becomes shorter by it.

    The trainer's model, optimiser and state are left as they were. Where torch.compile fails, for
    want of a compiler or otherwise, that is said.
    """
    if not stacks_of(trainer.model):
        return False
    plain, steps = None, trainer.settings.steps
    try:
        if trainer.settings.compile is not True:
            plain = _tried(trainer, compiled=False)
            if plain.later * steps < SHORTEST:
                return False
        compiled = _tried(trainer, compiled=True)
    except NotFinite:
        return trainer.settings.compile is True  # the training itself will tell
    except RuntimeError as error:
        reason = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
        say(f"notice: torch.compile fails here ({reason}); the training goes without it")
        return False
    say(f"compiling took {compiled.first - compiled.later:.0f} s")
    return plain is None or compiled.first + compiled.later * steps < plain.later * steps


def _tried(trainer: Trainer, *, compiled: bool) -> Trial:
    model = copy.deepcopy(trainer.model)
    for stack in stacks_of(model):
        stack.compiles = compiled
    trial = Trainer(
        model,
        trainer.settings.model_copy(update={"steps": STEPS + 1, "compile": compiled}),
        trainer.batches,
        trainer.objective,
        seed=trainer.seed,
        device=trainer.device,
    )
    batches = trial.batches.after(0, 0)
    seconds = [_seconds(lambda: trial.advance(batches), trainer.device) for _ in range(STEPS + 1)]
    return Trial(seconds[0], min(seconds[1:]))


def _seconds(work: Callable[[], None], device: torch.device) -> float:
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
