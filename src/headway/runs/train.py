"""From a recipe to a run: prepare, train, judge, report; and going on where a run was stopped."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import UserError
from headway.base.progress import say
from headway.base.runtime import environment, keep_pages, pick_device
from headway.batches.pairs import BatchOrder
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import Checkpoint, newest_checkpoint
from headway.checkpoint.weights import fill
from headway.models.build import build
from headway.runs.hooks import (
    RunHooks,
    RunLog,
    forget_lost_best,
    recall_best_mean,
    rewind_log,
)
from headway.runs.load import stored_recipe, translator_of
from headway.runs.prepare import DATA, Prepared, prepare
from headway.runs.summary import summarise
from headway.runs.tokenizers import Tokenizers
from headway.runs.translator import Translator
from headway.settings.recipe import Recipe, load_recipe, load_recipe_text
from headway.training.loop import Framing, Hook, NotFinite, Trainer
from headway.training.optimizer import restore_optimizers
from headway.training.probe import faster_dtype
from headway.training.state import TrainState


def train(
    recipe: str | Path | Mapping[str, Any] | None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    **overrides: Any,
) -> Translator:
    """Train what a recipe says into the folder `out` and return the translator.

    `recipe` is a shipped name, a TOML file or a table; `overrides` are its keys, as tables
    (`train={"steps": 100}`) or dotted (`**{"train.steps": 100}`). With `resume` the run in `out`
    goes on from its newest checkpoint, exactly as if it had not been stopped; then only keys of
    `train` and `evaluate` may be overridden. Raises UserError for bad input, before anything is
    written, and Interrupted when it was stopped and has saved.
    """
    return run_recipe(recipe, overrides, out=out, resume=resume, device=device)


def run_recipe(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    *,
    out: str | Path | None,
    resume: bool,
    device: str,
) -> Translator:
    """`train`, with the overrides as one table, so that no key of theirs is an argument here."""
    keep_pages()
    begin = _resumed if resume else _started
    return begin(recipe, out, overrides, pick_device(device)).finish()


@dataclass(frozen=True)
class _Run:
    """A run that is ready to train."""

    folder: RunFolder
    recipe: Recipe
    prepared: Prepared
    trainer: Trainer
    device: torch.device
    resumed: bool = False

    def finish(self) -> Translator:
        """Train to the end, then judge the best weights on the test part and write the report."""
        with self.folder.lock():
            if self.resumed:  # not before: the log may be that of a training that is under way
                self.folder.replace_recipe(self.recipe.to_toml())
                rewind_log(self.folder, self.trainer.state.step, self.recipe.train.steps)
            return self._finish()

    def _finish(self) -> Translator:
        log = RunLog(self.folder, self.trainer.state.step)
        valid = self.prepared.valid
        translator = Translator(
            self.trainer.model, self.prepared.tokenizers, self.recipe, self.device
        )
        hooks = RunHooks(
            self.folder,
            self.recipe,
            self.trainer,
            translator,
            valid.first(self.recipe.evaluate.lines) if valid is not None else None,
            log,
        )
        settings = self.recipe.train
        try:
            self.trainer.run(
                Hook(settings.log_every, hooks.on_log),
                [
                    Hook(settings.evaluate_every, hooks.on_evaluate),
                    Hook(settings.save_every, hooks.on_save),
                ],
                leave=hooks.on_save,
            )
            hooks.on_end(self.trainer.state)
        except NotFinite:
            if all(bool(weight.isfinite().all()) for weight in self.trainer.weights):
                hooks.on_save(self.trainer.state)
            raise
        finally:
            log.close()
        if valid is None:
            self.folder.save_weights(self.trainer.model.state_dict())
        best = translator_of(
            self.recipe,
            self.prepared.tokenizers,
            self.folder.weights(),
            self.device,
            where=str(self.folder.path),
        )
        test = self.prepared.test
        part = "test" if test is not None else "valid"
        summarise(self.folder, best, valid if test is None else test, part=part)
        return best


def _started(
    recipe: str | Path | Mapping[str, Any] | None,
    out: str | Path | None,
    overrides: Mapping[str, Any],
    device: torch.device,
) -> _Run:
    if recipe is None:
        raise UserError("no recipe is named", todo="see them with: headway recipes")
    settings = load_recipe(recipe, overrides)
    folder = RunFolder(run_place(recipe, out))
    folder.refuse_occupied()
    prepared = prepare(settings)
    _say_all(prepared)
    trainer = _trainer(settings, prepared, device, TrainState())
    if settings.train.dtype == "auto":
        dtype = faster_dtype(trainer)
        settings = settings.model_copy(
            update={"train": settings.train.model_copy(update={"dtype": dtype})}
        )
        trainer = _trainer(settings, prepared, device, TrainState())
    config = {
        "model": settings.model.model_dump(mode="json"),
        "n_source": len(prepared.tokenizers.source),
        "n_target": len(prepared.tokenizers.target),
        "parameters": sum(weight.numel() for weight in trainer.weights),
    }
    facts = {**environment(), "data": prepared.hashes}
    reports = {DATA: prepared.report.to_table()}
    folder.create(settings.to_toml(), config, prepared.tokenizers.files(), facts, reports)
    return _Run(folder, settings, prepared, trainer, device)


def _resumed(
    recipe: str | Path | Mapping[str, Any] | None,
    out: str | Path | None,
    overrides: Mapping[str, Any],
    device: torch.device,
) -> _Run:
    if recipe is None and out is None:
        raise UserError("no run is named", todo="give --out DIR")
    folder = RunFolder(Path(out) if out is not None else run_place(recipe, None))
    stored = stored_recipe(folder)
    folder.refuse_busy()
    if recipe is None or (isinstance(recipe, str) and not recipe.endswith(".toml")):
        if recipe is not None:
            load_recipe_text(recipe)  # a name that does not exist is a mistake here too
        settings = load_recipe(folder.recipe(), overrides)
    else:  # a file or table of the user's own, perhaps edited since
        settings = load_recipe(recipe, {"train.dtype": stored.train.dtype, **overrides})
    _refuse_changes(folder, stored, settings)
    prepared = prepare(settings, Tokenizers.read(folder))
    _check_data(folder, prepared)
    checkpoint, passed_over = newest_checkpoint(folder.checkpoints)
    for line in passed_over:
        say(line)
    state = TrainState() if checkpoint is None else _restored(checkpoint)
    recall_best_mean(folder, state, settings)
    forget_lost_best(folder, state, settings.train.steps)
    trainer = _trainer(settings, prepared, device, state)
    if checkpoint is None:
        if passed_over:
            raise UserError(
                "no checkpoint of this run is whole",
                where=str(folder.checkpoints),
                todo="put one back, or start another run",
            )
        say(f"{folder.path}: no checkpoint yet, so training begins at step 0")
    else:
        fill(trainer.model, checkpoint.weights(), where=str(checkpoint.path))
        restore_optimizers(trainer.optimizers, trainer.model, checkpoint.optimizer())
        say(f"resumed {folder.path} after step {checkpoint.step} of {settings.train.steps}")
    return _Run(folder, settings, prepared, trainer, device, resumed=True)


def _refuse_changes(folder: RunFolder, stored: Recipe, wanted: Recipe) -> None:
    """What the weights, the ids, the order of the data and the best so far rest on stays."""
    fixed = ["data", "tokenizer", "model", "seed"]
    fixed += [f"train.{name}" for name in ("batch_tokens", "optimizer", "dtype")]
    fixed += [f"evaluate.{name}" for name in ("metric", "lines", "lowercase")]
    for key in fixed:
        look = operator.attrgetter(key)
        if look(stored) != look(wanted):
            raise UserError(
                f"'{key}' of a run that has begun cannot change",
                where=str(folder.path),
                todo="start another run with another --out",
            )


def _restored(checkpoint: Checkpoint) -> TrainState:
    table = checkpoint.state()
    threads = table.pop("threads")
    if threads != torch.get_num_threads():
        say(
            f"this run was trained with {threads} threads and goes on with "
            f"{torch.get_num_threads()}: sums may differ in the last bit"
        )
    return TrainState.from_table(table)


def _trainer(
    recipe: Recipe, prepared: Prepared, device: torch.device, state: TrainState
) -> Trainer:
    tokenizers = prepared.tokenizers
    model = build(
        recipe.model,
        n_source=len(tokenizers.source),
        n_target=len(tokenizers.target),
        seed=recipe.seed,
    )
    return Trainer(
        model.to(device),
        recipe.train,
        BatchOrder(
            prepared.train,
            recipe.train.batch_tokens,
            recipe.seed,
            prepared.redraw.pairs if prepared.redraw else None,
        ),
        Framing(pad=tokenizers.target.pad, bos=tokenizers.target.bos),
        seed=recipe.seed,
        device=device,
        state=state,
    )


def run_place(recipe: str | Path | Mapping[str, Any] | None, out: str | Path | None) -> Path:
    """The folder of a run: `out`, or one named after the recipe.

    Raises UserError for a recipe that has no name to give.
    """
    if out is not None:
        return Path(out)
    if isinstance(recipe, str | Path):
        return Path("runs") / str(recipe).removesuffix(".toml").strip("./").replace("/", "-")
    raise UserError("a recipe given as a table has no name", todo="give out=FOLDER")


def _check_data(folder: RunFolder, prepared: Prepared) -> None:
    stored = folder.data_hashes()
    changed = [name for name, digest in prepared.hashes.items() if stored.get(name) != digest]
    if changed:
        raise UserError(
            f"the {' and '.join(changed)} data are not what this run began with",
            where=str(folder.path),
            todo="put the original data back, or start another run",
        )


def _say_all(prepared: Prepared) -> None:
    for notice in prepared.notices:
        say(notice)
