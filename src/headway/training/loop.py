"""The training loop: steps of one or more batches, with things to do every so often."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn

from headway.base.errors import Interrupted, UserError
from headway.base.progress import ProgressBar, say
from headway.batches.pairs import BatchOrder, PairBatch, Rows
from headway.models.encoder_decoder import EncoderDecoder
from headway.nn.dropout import Noise
from headway.settings.training import TrainSettings
from headway.training.losses import TokenLoss, token_loss
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


@dataclass(frozen=True)
class Framing:
    """The ids that batches are padded with and that targets begin with."""

    pad: int
    bos: int


class Trainer:
    """Trains an encoder–decoder on pairs. Saving, evaluating and logging come in as hooks."""

    def __init__(
        self,
        model: EncoderDecoder[Any, Any],
        settings: TrainSettings,
        order: BatchOrder,
        framing: Framing,
        *,
        seed: int,
        device: torch.device,
        state: TrainState | None = None,
    ) -> None:
        self.model, self.settings, self.order, self.framing = model, settings, order, framing
        self.seed, self.device = seed, device
        self.state = state or TrainState()
        self.optimizers = make_optimizers(model, settings, head=model.head)
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]

    def run(self, log: Hook, hooks: Sequence[Hook], leave: Callable[[TrainState], None]) -> None:
        """Train to the last step, or until `patience` evaluations brought nothing better.

        `log` sees the window of losses, which is then emptied.

        Ctrl-C and SIGTERM end it after the step in hand: `leave` saves, then Interrupted is
        raised. Raises UserError at the first loss or gradient that is not finite, before the
        weights are touched.
        """
        steps = self.settings.steps
        batches = self.order.after(self.state.epoch, self.state.batch)
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
        taken, made, tokens = self._take(batches)
        torch.manual_seed(hash((self.seed, step)) & 0x7FFFFFFF)  # for kernels that take no seed
        sums = [torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)]
        for micro, batch in enumerate(made):
            if not batch.target_real.any():
                continue  # adds exactly 0; not every network takes targets of no width
            loss = self.loss(batch.to(self.device), Noise(self.seed, step, micro))
            (loss.objective / tokens).backward()  # type: ignore[no-untyped-call]
            for index, part in enumerate(loss):
                sums[index] += part.detach().cpu()
        objective, nll = (float(part) for part in sums)
        total = nn.utils.get_total_norm([w.grad for w in self.weights if w.grad is not None])
        norm = float(total)
        if not (math.isfinite(objective) and math.isfinite(norm)):
            raise self._not_finite(objective, [rows for _, _, rows in taken])
        if self.settings.clip:  # after the check: to scale by NaN would spoil every gradient
            nn.utils.clip_grads_with_norm_(self.weights, self.settings.clip, total)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.settings, step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - began
        state.step, (state.epoch, state.batch) = step, taken[-1][:2]
        state.tokens += tokens
        state.seconds += seconds
        window = state.window
        window.objective += objective
        window.nll += nll
        window.tokens += tokens
        window.gradient_norm += norm
        window.seconds += seconds
        window.steps += 1

    def _take(
        self, batches: Iterator[tuple[int, int, Rows]]
    ) -> tuple[list[tuple[int, int, Rows]], list[PairBatch], int]:
        """The batches of the next step, as rows and as tensors, and their target tokens.

        Where they have none there is nothing to learn and nothing to divide by: they are passed
        over, which is said and counted, and the schedule does not move.
        """
        while True:
            taken = [next(batches) for _ in range(self.settings.accumulate)]
            made = [
                self.order.pairs_of(epoch).batch(rows, pad=self.framing.pad, bos=self.framing.bos)
                for epoch, _, rows in taken
            ]
            tokens = sum(int(batch.target_real.sum()) for batch in made)
            if tokens:
                return taken, made, tokens
            self.state.epoch, self.state.batch = taken[-1][:2]
            self.state.skipped += 1
            step, skipped = self.state.step + 1, self.state.skipped
            say(f"step {step}: batches without a target token passed over ({skipped} so far)")

    def loss(self, batch: PairBatch, noise: Noise | None) -> TokenLoss:
        """The loss of the real target tokens of a batch."""
        with autocast(self.device, self.settings.dtype):
            encoded = self.model.encode(batch.source, batch.source_real, noise)
            hidden = self.model.decode(batch.target, encoded, noise)
        hidden = hidden[batch.target_real]  # (N, D)
        if self.settings.dtype == "bfloat16":
            hidden = hidden.bfloat16()  # the norms gave float32
        targets = batch.following[batch.target_real]
        head, smoothing = self.model.head, self.settings.label_smoothing
        return token_loss(hidden, head.weight, targets, smoothing, head.bias)

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
            f"{first} is not finite (loss {objective}); training pairs {examples}, …",
            where=f"step {self.state.step + 1}",
            todo="the last checkpoint is kept: lower train.learning_rate, lengthen train.warmup "
            "or set train.clip, then --resume",
        )

    def _text(self) -> str:
        window = self.state.window
        nll = window.nll / max(1, window.tokens)
        rate = window.tokens / max(1e-9, window.seconds)
        return f"loss {nll:.3f}  {rate:,.0f} tokens/s"


def autocast(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    """Matrix products in bfloat16 if that is the dtype; norms and softmax stay in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")


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
