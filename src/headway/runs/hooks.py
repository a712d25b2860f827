"""What a training does beside its steps: log, evaluate, save. Wired here, unknown to the loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.base.files import explain_os_errors
from headway.base.progress import say
from headway.base.runtime import return_pages
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import (
    mean_weights,
    save_checkpoint,
    save_shards,
    whole_checkpoints,
)
from headway.checkpoint.weights import fill, tensors_digest
from headway.runs.tasks.base import Judgement
from headway.settings.kinds import Recipe
from headway.settings.training import TrainSettings
from headway.training.fine_tuning import plain_weights
from headway.training.loop import Trainer
from headway.training.optimizer import optimizer_tensors
from headway.training.schedules import learning_rate
from headway.training.state import TrainState

# Seconds after which freed memory is given back. Batches have ever new shapes, and among kept pages
# the freed ones would become as many as the pieces are odd: 4 GB in 20 minutes where 1 was in use.
# It takes 0.2 s, and the steps after it a little longer.
_RETURN_AFTER = 30.0


@dataclass
class RunLog:
    """Writes records to metrics.jsonl, and their numbers to TensorBoard."""

    folder: RunFolder
    first_step: int
    _board: Any = field(default=None, repr=False)

    def write(self, record: dict[str, Any]) -> None:
        """One record, with `kind` and `step`."""
        self.folder.metrics.append(record)
        board = self.folder.path / "tensorboard"
        with explain_os_errors(board):
            if self._board is None:
                from torch.utils.tensorboard import SummaryWriter  # half a second to import

                self._board = SummaryWriter(str(board), purge_step=self.first_step + 1)
            for name, value in record.items():
                if type(value) in (int, float) and name != "step":
                    self._board.add_scalar(f"{record['kind']}/{name}", value, record["step"])

    def close(self) -> None:
        """Have TensorBoard's file on the disk."""
        if self._board is not None:
            with explain_os_errors(self.folder.path / "tensorboard"):
                self._board.close()


@dataclass
class RunHooks:
    """The hooks of one run; of several ranks the first writes and judges, the others wait.

    `judged` is the model that `judge` looks at: that which is trained, or a whole one beside it, if
    that is spread over ranks.
    """

    folder: RunFolder
    recipe: Recipe
    trainer: Trainer
    judged: nn.Module
    judge: Callable[[], Judgement | None]
    log: RunLog
    _returned: float = field(default_factory=time.monotonic)

    def on_log(self, state: TrainState) -> None:
        """The mean losses of the window, the rate, the speed."""
        window = state.window
        targets = max(1, window.targets)
        record: dict[str, Any] = {
            "kind": "train",
            "step": state.step,
            "tokens": state.tokens,
            "seconds": round(state.seconds, 3),
            "objective": window.objective / targets,
            "nll": window.nll / targets,
            **{f"{part}_nll": nll / max(1, n) for part, (nll, n) in window.others.items()},
            "learning_rate": learning_rate(self.recipe.train, state.step),
            "grad_norm": window.gradient_norm / max(1, window.steps),
            "tokens_per_s": round(window.tokens / max(1e-9, window.seconds), 1),
            "utilisation": round(self.trainer.utilisation(), 4),
            "skipped": state.skipped,
        }
        if state.step % self.recipe.train.log_every:
            record["partial"] = True  # the run's last step; a longer run would go on from here
        if self.trainer.ranks.leads:
            self.log.write(record)
        if time.monotonic() - self._returned > _RETURN_AFTER:
            return_pages()
            self._returned = time.monotonic()

    def on_evaluate(self, state: TrainState) -> None:
        """Judge on the validation part; keep the weights if they are the best so far."""
        record = {"kind": "valid", "step": state.step, "seconds": round(state.seconds, 3)}
        best = self._judge(state, self.trainer.whole_weights(), record)
        if best is not None:
            state.stale = 0 if best else state.stale + 1

    def on_end(self, state: TrainState) -> None:
        """Let the mean of the last saves compete; without validation data, take it."""
        wanted = self.recipe.train.average
        if wanted == 1:
            return
        steps = {state.step, *regular_saves(state.step, self.recipe.train)}
        found = whole_checkpoints(self.folder.checkpoints, steps)[:wanted]
        weights = mean_weights(found) if self.trainer.ranks.leads else {}
        say(f"the mean of the weights of steps {', '.join(str(each.step) for each in found)}:")
        self._judge(state, weights, {"kind": "average", "step": state.step, "of": len(found)})

    def _judge(
        self, state: TrainState, weights: Mapping[str, Tensor], record: dict[str, Any]
    ) -> bool | None:
        """Judge these weights, complete and write the record; whether they were the best so far.

        None if there is nothing to judge them on.
        """
        found, worth, ranks = None, math.nan, self.trainer.ranks
        if ranks.leads:
            fill(self.judged, weights, where=str(self.folder.checkpoints))
            found = self.judge()
            worth = math.nan if found is None else found.worth
        there, worth = ranks.told([found is not None, worth])
        if not there:
            return None
        best = math.isfinite(worth) and (state.best is None or worth > state.best)
        if best:
            state.best, state.best_step = worth, state.step
        if found is not None:
            self.log.write({**record, **found.record, "worth": worth, "best": best})
            say(f"step {state.step}: {found.said}")
            if best:
                plain = plain_weights(weights, self.recipe.train)
                self.folder.save_weights(plain)
                state.best_digest = tensors_digest(plain)
        return best

    def on_save(self, state: TrainState) -> None:
        """A checkpoint from which training goes on exactly."""
        model, ranks, settings = self.trainer.model, self.trainer.ranks, self.recipe.train
        optimizer = optimizer_tensors(self.trainer.optimizers, model)
        threads = torch.get_num_threads()
        about: dict[str, Any] = {
            "state": {**state.to_table(), "threads": threads, "ranks": ranks.size},
            "keep": settings.keep,
            "also": regular_saves(state.step, settings),
        }
        folder, weights = self.folder.checkpoints, model.state_dict(keep_vars=True)
        if self.trainer.shards:
            save_shards(folder, state.step, tensors={**weights, **optimizer}, **about, ranks=ranks)
        else:
            if ranks.leads:
                save_checkpoint(folder, state.step, weights=weights, optimizer=optimizer, **about)
            ranks.wait()


def rewind_log(folder: RunFolder, step: int, steps: int, changed: Mapping[str, list[Any]]) -> None:
    """Forget what was logged after the checkpoint, and say that the run was resumed.

    `changed` are the recipe's keys that differ from here on, with their values before and now.

    What was the run's end goes too, if that is no longer its end: a partial window, and the mean of
    saves unless it is the best so far. An end that comes again is logged again.
    """
    kept = [
        record
        for record in folder.metrics.read()
        if record["kind"] == "resume"
        or (
            (record["kind"] in ("train", "valid") and record["step"] <= step)
            and not (record.get("partial") and record["step"] < steps)
        )
        or _is_best_mean(record, step, steps)
    ]
    resumed = {"kind": "resume", "step": step, **({"changed": dict(changed)} if changed else {})}
    folder.metrics.keep([*kept, resumed])


def recall_best_mean(folder: RunFolder, state: TrainState, recipe: Recipe) -> None:
    """Where training goes on past its end, the mean of saves that won there is what is to beat.

    The checkpoint was written before it, and knows the best until then.
    """
    for record in folder.metrics.read():
        if record["step"] == state.step and _is_best_mean(record, state.step, recipe.train.steps):
            state.best, state.best_step, state.best_digest = record["worth"], state.step, None


def _is_best_mean(record: Mapping[str, Any], step: int, steps: int) -> bool:
    won, at = record["kind"] == "average" and record.get("best"), int(record["step"])
    return bool(won) and at <= step and at < steps


def regular_saves(step: int, settings: TrainSettings) -> list[int]:
    """The steps up to `step` whose weights the mean at the end may need, newest first.

    Those that a stop forced are none of them, so that a stopped run ends with the same mean.
    """
    if settings.average == 1:
        return []
    newest = step - step % settings.save_every
    return list(range(newest, 0, -settings.save_every))[: settings.average]
