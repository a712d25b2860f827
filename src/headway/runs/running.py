"""A run at work: its trainer over the ranks there are, its hooks, its end."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.base.errors import Interrupted, UserError
from headway.base.progress import say
from headway.checkpoint.run import RunFolder
from headway.checkpoint.weights import fill
from headway.runs.best import put_best
from headway.runs.hooks import RunHooks, RunLog, rewind_log
from headway.runs.load import opened
from headway.runs.tasks.base import Material, Task
from headway.settings.base import differences
from headway.training.fine_tuning import adapt, plain_weights
from headway.training.loop import Hook, NotFinite, Trainer
from headway.training.mup import begin_mup
from headway.training.peak import device_peak, step_peak
from headway.training.ranks import Ranks, whole
from headway.training.state import TrainState


@dataclass(frozen=True)
class Run:
    """A run that is ready to train; `best` is what `settle_best` found where it goes on."""

    folder: RunFolder
    task: Task[Any]
    trainer: Trainer
    device: torch.device
    resumed: bool = False
    best: Mapping[str, Tensor] | None = None

    def finish(self) -> Any:
        """Train to the end, then judge the best weights on the test part and write the report.

        The first rank does so; of the others it returns nothing.
        """
        leads = self.trainer.ranks.leads
        with self.folder.lock() if leads else contextlib.nullcontext():
            if self.resumed and leads:  # before, the log may be that of a training under way
                self._go_on()
            return self._finish()

    def _go_on(self) -> None:
        """Write down that the run was resumed, and what it is told to do differently from here."""
        recipe, step = self.task.recipe, self.trainer.state.step
        changed = differences(self.folder.recipe(), recipe.to_table())
        for key, (before, now) in changed.items():
            say(f"{key}: {_told(now)} from here on; it was {_told(before)}")
        put_best(self.folder, self.best)
        self.folder.replace_recipe(recipe.to_toml())
        rewind_log(self.folder, step, recipe.train.steps, changed)

    def _finish(self) -> Any:
        log = RunLog(self.folder, self.trainer.state.step)
        judged, ranks = self._judged(), self.trainer.ranks
        judge = functools.partial(self.task.judge, self.task.open(judged, self.device))
        hooks = RunHooks(self.folder, self.task.recipe, self.trainer, judged, judge, log)
        settings = self.task.recipe.train
        planned = getattr(self.task.recipe, "plan", None) is not None
        held = step_peak(self.trainer) if planned and ranks.size == 1 else None
        try:
            self.trainer.run(
                Hook(settings.log_every, hooks.on_log),
                [
                    Hook(settings.evaluate_every, hooks.on_evaluate),
                    Hook(settings.save_every, hooks.on_save),
                ],
                leave=hooks.on_save,
            )
            held = held or (device_peak(self.device) if planned else None)
            if held and ranks.leads:
                log.write({"kind": "memory", "step": self.trainer.state.step, "bytes": held})
            hooks.on_end(self.trainer.state)
        except Exception as error:
            self._rescue(hooks, error)
            raise
        finally:
            log.close()
        best = None
        if ranks.leads:
            if self.trainer.state.best is None:
                self.folder.save_weights(plain_weights(judged.state_dict(), settings))
            where = str(self.folder.path)
            best = opened(self.task, self.folder.weights(), self.device, where=where)
            self.task.summarise(self.folder, best)
        ranks.wait()
        return best

    def _rescue(self, hooks: RunHooks, error: Exception) -> None:
        """Save what was trained until an error, so that no work is lost with it.

        Ranks save together: all of them see a loss that is not finite, and perhaps nothing else.
        """
        trainer = self.trainer
        together = isinstance(error, NotFinite) or trainer.ranks.size == 1
        if not together or trainer.torn or isinstance(error, Interrupted):  # which is saved
            return
        with contextlib.suppress(UserError, OSError, MemoryError, RuntimeError):  # a full disk, say
            if all(bool(whole(weight).isfinite().all()) for weight in trainer.weights):
                hooks.on_save(trainer.state)

    def _judged(self) -> nn.Module:
        """The model that is trained; a whole one beside it, if that is spread over ranks."""
        if not self.trainer.shards:
            return self.trainer.model
        weights = self.trainer.whole_weights()
        if not self.trainer.ranks.leads:
            return self.trainer.model
        judged = make_model(self.task)
        fill(judged, weights, where=str(self.folder.path))
        return judged.to(self.device)


def _told(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def material_of(task: Task[Any]) -> Material:
    """What a task that was prepared has to train on."""
    assert task.material is not None, "it was prepared"
    return task.material


def make_trainer(
    task: Task[Any],
    device: torch.device,
    state: TrainState,
    weights: Mapping[str, Tensor] | None,
    ranks: Ranks,
) -> Trainer:
    """The trainer of a task that was prepared, from these weights or from its first ones."""
    material, recipe = material_of(task), task.recipe
    return Trainer(
        make_model(task, weights).to(device),
        recipe.train,
        material.batches,
        material.objective,
        seed=recipe.seed,
        device=device,
        state=state,
        ranks=ranks,
    )


def make_model(task: Task[Any], weights: Mapping[str, Tensor] | None = None) -> nn.Module:
    """The model as it is trained, with these weights or its first ones."""
    model = task.build()
    if weights is not None:
        model.load_state_dict(dict(weights))
    else:
        begin_mup(model, task.recipe.train)
    adapt(model, task.recipe.train, seed=task.recipe.seed)
    return model


def agree(task: Task[Any], state: TrainState, ranks: Ranks) -> None:
    """Raise UserError unless all ranks have one recipe, tokenisers and data, and begin as one."""
    material = material_of(task)
    files, hashes = sorted(material.files.items()), sorted(material.hashes.items())
    facts = (task.recipe.to_toml(), files, hashes, state.to_table())
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()
    ranks.agree(digest, "data, recipes or checkpoints")
