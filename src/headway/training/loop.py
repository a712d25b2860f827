"""The training loop: steps of one or more batches, with things to do every so often."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

import torch
from torch import Tensor, nn

from headway.base.errors import Interrupted, UserError
from headway.base.progress import ProgressBar, say
from headway.batches.order import Batch, Batches, Rows
from headway.nn.dropout import Noise
from headway.settings.training import TrainSettings
from headway.training.objectives import Objective
from headway.training.optimizer import make_optimizers
from headway.training.schedules import learning_rate
from headway.training.state import TrainState, Window


class NotFinite(UserError):
    """The loss or a gradient was not finite; the weights are those of the step before."""


@dataclass(frozen=True)
class Hook:
    """Something to do after every `every` steps and after the last one."""

    every: int
    call: Callable[[TrainState], None]


class Trainer:
    """Trains a model on batches by an objective. Saving, evaluating, logging come in as hooks."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainSettings,
        batches: Batches,
        objective: Objective,
        *,
        seed: int,
        device: torch.device,
        state: TrainState | None = None,
    ) -> None:
        self.model, self.settings = model, settings
        self.batches, self.objective = batches, objective
        self.seed, self.device = seed, device
        self.state = state or TrainState()
        self.optimizers = make_optimizers(model, settings)
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]

    def run(self, log: Hook, hooks: Sequence[Hook], leave: Callable[[TrainState], None]) -> None:
        """Train to the last step, or until `patience` evaluations brought nothing better.

        `log` sees the window of losses, which is then emptied.

        Ctrl-C and SIGTERM end it after the step in hand: `leave` saves, then Interrupted is
        raised. Raises UserError at the first loss or gradient that is not finite, before the
        weights are touched.
        """
        steps = self.settings.steps
        batches = self.batches.after(self.state.epoch, self.state.batch)
        self.model.train()
        with _listen() as asked, ProgressBar("training", steps, done=self.state.step) as progress:
            while self.state.step < steps and not self._waited_enough():
                self.advance(batches)
                last = self.state.step == steps
                progress.advance(text=self._text())
                if self.state.step % log.every == 0 or last:
                    log.call(self.state)
                if self.state.step % log.every == 0:
                    self.state.window = Window()
                for hook in hooks:  # an evaluation may show that there has been enough waiting
                    last = last or self._waited_enough()
                    if self.state.step % hook.every == 0 or last:
                        hook.call(self.state)
                        self.model.train()
                if asked and not last:
                    leave(self.state)
                    step = self.state.step
                    raise Interrupted(asked[0], f"stopped and saved after step {step} of {steps}")

        if self.state.step < steps:
            if self.state.window.steps:
                log.call(self.state)
            say(f"ends at step {self.state.step}: nothing better since {self.state.best_step}")

    def _waited_enough(self) -> bool:
        patience = self.settings.patience
        return 0 < patience <= self.state.stale

    def advance(self, batches: Iterator[tuple[int, int, Rows]]) -> None:
        """One optimiser step over `accumulate` batches; the sums are divided once, at its end."""
        began = time.perf_counter()
        state, step = self.state, self.state.step + 1
        taken, made, counts = self._take(batches)
        torch.manual_seed(hash((self.seed, step)) & 0x7FFFFFFF)  # for kernels that take no seed
        sums = {part: [0.0, 0.0] for part in counts}
        for micro, batch in enumerate(made):
            if not any(batch.counts.values()):
                continue  # adds exactly 0; not every network takes targets of no width
            noise = Noise(self.seed, step, micro)
            losses = self.objective(self.model, batch.to(self.device), noise, self.settings.dtype)
            terms = [loss.objective / counts[part] for part, loss in losses.items() if counts[part]]
            sum(terms[1:], start=terms[0]).backward()  # type: ignore[no-untyped-call]
            for part, loss in losses.items():
                for index, value in enumerate(loss):
                    sums[part][index] += float(value.detach())
        main = next(iter(counts))
        # the main part's share is exactly 1; the others' means are told on its count
        objective = sum(
            value * (counts[main] / counts[part]) for part, (value, _) in sums.items() if value
        )
        total = nn.utils.get_total_norm([w.grad for w in self.weights if w.grad is not None])
        norm = float(total)
        if not (math.isfinite(objective) and math.isfinite(norm)):
            raise self._not_finite(objective, [rows for _, _, rows in taken])
        self._update(step, total)
        state.step, (state.epoch, state.batch) = step, taken[-1][:2]
        seconds, tokens = time.perf_counter() - began, sum(batch.tokens for batch in made)
        state.tokens += tokens
        state.seconds += seconds
        nlls = {part: (nll, counts[part]) for part, (_, nll) in sums.items()}
        state.window.add(objective, nlls, tokens, norm, seconds)

    def _update(self, step: int, norm: Tensor) -> None:
        if self.settings.clip:  # after the check: to scale by NaN would spoil every gradient
            nn.utils.clip_grads_with_norm_(self.weights, self.settings.clip, norm)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["share"] * learning_rate(self.settings, step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def _take(
        self, batches: Iterator[tuple[int, int, Rows]]
    ) -> tuple[list[tuple[int, int, Rows]], list[Batch], Counter[str]]:
        """The batches of the next step, as rows and as tensors, and their targets by part.

        Where they have none there is nothing to learn and nothing to divide by: they are passed
        over, which is said and counted, and the schedule does not move.
        """
        while True:
            taken = [next(batches) for _ in range(self.settings.accumulate)]
            made = [self.batches.batch(epoch, rows) for epoch, _, rows in taken]
            counts = Counter[str]()
            for batch in made:
                counts.update(batch.counts)
            if counts.total():
                return taken, made, counts
            self.state.epoch, self.state.batch = taken[-1][:2]
            self.state.skipped += 1
            step, skipped = self.state.step + 1, self.state.skipped
            say(f"step {step}: batches without a target token passed over ({skipped} so far)")

    def _not_finite(self, objective: float, rows: list[Rows]) -> NotFinite:
        named = list(self.model.named_parameters())
        # weights first: one that is not finite makes every gradient so
        suspects = [(f"the weight {name}", weight) for name, weight in named] + [
            (f"the gradient of {name}", weight.grad)
            for name, weight in named
            if weight.grad is not None
        ]
        bad = (what for what, values in suspects if not bool(values.isfinite().all()))
        first = next(bad, "the loss")
        examples = ", ".join(str(row) for row in rows[0][:5])
        return NotFinite(
            f"{first} is not finite (loss {objective}); training rows {examples}, …",
            where=f"step {self.state.step + 1}",
            todo="the last checkpoint is kept: lower train.learning_rate, lengthen train.warmup "
            "or set train.clip, then --resume",
        )

    def _text(self) -> str:
        window = self.state.window
        nll = window.nll / max(1, window.targets)
        rate = window.tokens / max(1e-9, window.seconds)
        return f"loss {nll:.3f}  {rate:,.0f} tokens/s"


@contextlib.contextmanager
def _listen() -> Iterator[list[int]]:
    """A list that SIGINT and SIGTERM write their number into; a second Ctrl-C stops at once."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, note) for number in _SIGNALS}
    except ValueError:  # not in the main thread, where signals do not arrive anyway
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
