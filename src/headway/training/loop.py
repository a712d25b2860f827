"""The training loop: steps of one or more batches, with things to do every so often."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.base.errors import Interrupted, UserError
from headway.base.progress import ProgressBar, say
from headway.batches.order import Batch, Batches, Rows
from headway.nn.dropout import Noise
from headway.settings.training import TrainSettings
from headway.training.objectives import Losses, Objective
from headway.training.optimizer import make_optimizers
from headway.training.ranks import ALONE, Ranks, last_sums, spread, whole
from headway.training.schedules import learning_rate
from headway.training.state import TrainState, Window
from headway.training.utilisation import counting, matrix_rate


class NotFinite(UserError):
    """The loss or a gradient was not finite; the weights are those of the step before."""


@dataclass(frozen=True)
class Hook:
    """Something to do after every `every` steps and after the last one."""

    every: int
    call: Callable[[TrainState], None]


class Share(NamedTuple):
    """What this rank has of a batch of a step; `number` is the batch's, as noise is drawn by.

    Where there are fewer rows than ranks it is a row that another has too, and that counts 0.
    """

    number: int
    batch: Batch
    counts: bool


class Trainer:
    """Trains a model on batches by an objective. Saving, evaluating, logging come in as hooks.

    Several ranks take shares of each step's batches; all else is the same on each of them.
    """

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
        ranks: Ranks = ALONE,
    ) -> None:
        self.model, self.settings, self.ranks = model, settings, ranks
        self.batches, self.objective = batches, objective
        self.seed, self.device = seed, device
        self.state = state or TrainState()
        self.shards = ranks.size > 1 and settings.parallel == "shard"
        self.network = spread(model, ranks, shards=self.shards)
        self.optimizers = make_optimizers(model, settings)
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.work = 0.0  # floating-point operations a token of this rank, once a step was counted
        self.torn = False  # whether some weights may have made a step that others have not

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
                signalled = self.ranks.most(asked[0] if asked else 0)
                if signalled and not last:
                    leave(self.state)
                    step = self.state.step
                    raise Interrupted(signalled, f"stopped and saved after step {step} of {steps}")

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
        taken, shares, counts, tokens = self._take(batches)
        with counting(self.model) if not self.work else contextlib.nullcontext() as counted:
            sums = self._gradients(step, shares, counts)
        if counted:
            self.work = counted.flops / max(1, tokens)
            if self.settings.compile is True:  # then all steps are, and this was not
                self.model.zero_grad()
                sums = self._gradients(step, shares, counts)
        main = next(iter(counts))
        # the main part's share is exactly 1; the others' means are told on its count
        objective = sum(
            value * (counts[main] / counts[part]) for part, (value, _) in sums.items() if value
        )
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        total = whole(nn.utils.get_total_norm(gradients))
        norm = float(total)
        if not (math.isfinite(objective) and math.isfinite(norm)):
            raise self._not_finite(objective, [rows for _, _, rows in taken])
        self._update(step, total)
        state.step, (state.epoch, state.batch) = step, taken[-1][:2]
        seconds = time.perf_counter() - began
        state.tokens += tokens
        state.seconds += seconds
        nlls = {part: (nll, counts[part]) for part, (_, nll) in sums.items()}
        state.window.add(objective, nlls, tokens, norm, seconds)

    def _gradients(
        self, step: int, shares: list[Share], counts: Mapping[str, int]
    ) -> dict[str, list[float]]:
        """Have the gradients of a step's mean loss; the sums of its parts, smoothed and plain."""
        torch.manual_seed(hash((self.seed, step)) & 0x7FFFFFFF)  # for kernels that take no seed
        sums = {part: [0.0, 0.0] for part in counts}
        for place, (number, batch, own) in enumerate(shares):
            if self.ranks.size == 1 and not any(batch.counts.values()):
                continue  # adds exactly 0; not every network takes targets of no width
            noise = Noise(self.seed, step, number)
            with last_sums(self.network, place == len(shares) - 1):
                losses: Losses = self.network(
                    self.objective, counts, batch.to(self.device), noise, self.settings.dtype
                )
                terms = [
                    loss.objective / (counts[part] if own else math.inf)
                    for part, loss in losses.items()
                ]
                sum(terms[1:], start=terms[0]).backward()  # type: ignore[no-untyped-call]
            for part, loss in losses.items():
                for index, value in enumerate(loss):
                    sums[part][index] += float(value.detach()) if own else 0.0
        found = iter(self.ranks.total([value for pair in sums.values() for value in pair]))
        return {part: [next(found), next(found)] for part in sums}

    def _update(self, step: int, norm: Tensor) -> None:
        # after the check: to scale by NaN would spoil every gradient, and to scale by 1 takes time
        if 0 < self.settings.clip < float(norm):
            nn.utils.clip_grads_with_norm_(self.weights, self.settings.clip, norm)
        self.torn = True
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["share"] * learning_rate(self.settings, step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.torn = False

    def _take(
        self, batches: Iterator[tuple[int, int, Rows]]
    ) -> tuple[list[tuple[int, int, Rows]], list[Share], dict[str, int], int]:
        """The batches of the next step as rows; this rank's shares of them as tensors.

        And their targets by part, and tokens, over all ranks. Where there are no targets there is
        nothing to learn and nothing to divide by: they are passed over, which is said and counted,
        and the schedule does not move. Raises UserError where a whole epoch has none.
        """
        began: int | None = None
        while True:
            taken = [next(batches) for _ in range(self.settings.accumulate)]
            began = taken[0][0] if began is None else began
            shares = [self._share(taken, *dealt) for dealt in self.ranks.deal(len(taken))]
            counts, tokens = Counter[str](), 0
            for _, batch, own in shares:
                counts.update({part: n * own for part, n in batch.counts.items()})
                tokens += batch.tokens * own
            *totals, tokens = map(int, self.ranks.total([*counts.values(), tokens]))
            if any(totals):
                return taken, shares, dict(zip(counts, totals, strict=True)), tokens
            self.state.epoch, self.state.batch = taken[-1][:2]
            self.state.skipped += 1
            step, skipped = self.state.step + 1, self.state.skipped
            say(f"step {step}: batches without a target token passed over ({skipped} so far)")
            if self.state.epoch > began + 1:
                raise UserError(
                    "no batch of a whole epoch has a token to learn",
                    where="data.train",
                    todo="look at some with headway data preview RECIPE",
                )

    def _share(
        self, taken: list[tuple[int, int, Rows]], number: int, part: int, parts: int
    ) -> Share:
        epoch, _, rows = taken[number]
        own = rows[part::parts]
        batch = self.batches.batch(epoch, own if len(own) else rows[:1])
        return Share(number + part * len(taken), batch, len(own) > 0)

    def _not_finite(self, objective: float, rows: list[Rows]) -> NotFinite:
        named = list(self.model.named_parameters())
        # weights first: one that is not finite makes every gradient so
        suspects = [(f"the weight {name}", weight) for name, weight in named] + [
            (f"the gradient of {name}", weight.grad)
            for name, weight in named
            if weight.grad is not None
        ]
        bad = (what for what, values in suspects if not bool(whole(values).isfinite().all()))
        first = next(bad, "the loss")
        examples = ", ".join(str(row) for row in rows[0][:5])
        return NotFinite(
            f"{first} is not finite (loss {objective}); training rows {examples}, …",
            where=f"step {self.state.step + 1}",
            todo="the last checkpoint is kept: lower train.learning_rate, lengthen train.warmup "
            "or set train.clip, then --resume",
        )

    def whole_weights(self) -> dict[str, Tensor]:
        """All weights by name; of those that are spread over ranks the first rank has them."""
        named = self.model.state_dict(keep_vars=True)
        if not self.shards:
            return {name: weight.detach() for name, weight in named.items()}
        made: dict[Tensor, Tensor] = {}  # tied ones once
        for weight in named.values():
            if weight not in made:
                gathered = whole(weight.detach())
                made[weight] = gathered.cpu() if self.ranks.leads else gathered.new_empty(0)
        return {name: made[weight] for name, weight in named.items()}

    def utilisation(self) -> float:
        """Of the rate that matrix products reach here, the share that the window's steps had."""
        dtype = torch.bfloat16 if self.settings.dtype == "bfloat16" else torch.float32
        window = self.state.window
        flops = self.work * window.tokens / max(1e-9, window.seconds)
        return flops / matrix_rate(dtype, self.device, torch.get_num_threads())

    def _text(self) -> str:
        window = self.state.window
        nll = window.nll / max(1, window.targets)
        rate = window.tokens / max(1e-9, window.seconds)
        used = self.utilisation()
        return f"loss {nll:.3f}  {rate:,.0f} tokens/s  {used:.0%} of the matrix rate"


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
