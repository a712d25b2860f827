"""From a recipe to a run: prepare, train, judge, report; and going on where a run was stopped."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.progress import say
from headway.base.runtime import environment, keep_pages, pick_device
from headway.checkpoint.run import RunFolder
from headway.checkpoint.shards import load_shards
from headway.checkpoint.steps import Checkpoint, newest_checkpoint
from headway.checkpoint.weights import fill
from headway.runs.beginning import begin, read_beginning, with_settings
from headway.runs.best import makes_again, settle_best
from headway.runs.hooks import recall_best_mean
from headway.runs.load import stored_recipe
from headway.runs.running import Run, agree, make_trainer, material_of
from headway.runs.tasks.all import task_of
from headway.runs.tasks.base import Task
from headway.settings.kinds import Recipe
from headway.settings.recipe import load_recipe, load_recipe_text, origin_of, recipe_table
from headway.settings.training import TrainSettings
from headway.training.compiling import compiles_here, may_compile
from headway.training.fine_tuning import plain_weights
from headway.training.loop import Trainer
from headway.training.optimizer import restore_optimizers
from headway.training.probe import DTYPES, faster_dtype
from headway.training.ranks import ALONE, Ranks, joined
from headway.training.schedules import learning_rate
from headway.training.state import TrainState


def train(
    recipe: str | Path | Mapping[str, Any] | None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    **overrides: Any,
) -> Any:
    """Train what a recipe says into the folder `out` and return what it opens as.

    `recipe` is a shipped name, a TOML file or a table; `overrides` are its keys, as tables
    (`train={"steps": 100}`) or dotted (`**{"train.steps": 100}`). With `resume` the run in `out`
    goes on from its newest checkpoint, exactly as if it had not been stopped; then only keys of
    `train` and `evaluate` may be overridden. Of several ranks (torchrun) the first one writes and
    returns the model, the others None. Raises UserError for bad input, before anything is written,
    and Interrupted when it was stopped and has saved.
    """
    return run_recipe(recipe, overrides, out=out, resume=resume, device=device)


def run_recipe(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    *,
    out: str | Path | None,
    resume: bool,
    device: str,
) -> Any:
    """`train`, with the overrides as one table, so that no key of theirs is an argument here."""
    keep_pages()
    ready = _resumed if resume else _started
    with joined(pick_device(device)) as (ranks, own):
        return ready(recipe, out, overrides, own, ranks).finish()


def _started(
    recipe: str | Path | Mapping[str, Any] | None,
    out: str | Path | None,
    overrides: Mapping[str, Any],
    device: torch.device,
    ranks: Ranks,
) -> Run:
    if recipe is None:
        raise UserError("no recipe is named", todo="see them with: headway recipes")
    settings, beginning = begin(recipe, overrides)
    folder = RunFolder(run_place(recipe, out))
    if ranks.leads:
        folder.refuse_occupied()
    task = task_of(settings).prepare(settings, None)
    material, weights = material_of(task), None
    for notice in material.notices:
        say(notice)
    if beginning is not None:
        weights, notice = beginning.weights_for(task.build())
        say(notice)
    agree(task, TrainState(), ranks)
    task = _probed(task, device, weights, ranks)
    trainer = make_trainer(task, device, TrainState(), weights, ranks)
    _tell_no_rate(task.recipe.train)
    plain = plain_weights(dict(trainer.model.named_parameters()), task.recipe.train)
    config = {
        "model": task.recipe.model.model_dump(mode="json", by_alias=True),
        **task.sizes,
        "parameters": sum(weight.numel() for weight in plain.values()),
        "trained": sum(weight.numel() for weight in trainer.weights),
    }
    facts = {**environment(), "device": str(device), "ranks": ranks.size}
    facts["data"] = dict(material.hashes)
    if ranks.leads:
        folder.create(
            task.recipe.to_toml(), config, dict(material.files), facts, dict(material.reports)
        )
    return Run(folder, task, trainer, device)


def _probed(
    task: Task[Any], device: torch.device, weights: Mapping[str, Tensor] | None, ranks: Ranks
) -> Task[Any]:
    """The task with the dtype that the first rank finds faster, compiled where it finds that so."""

    if task.recipe.train.dtype == "auto":
        faster = _decided(
            lambda trainer: DTYPES.index(faster_dtype(trainer)), task, device, weights, ranks
        )
        task = _with(task, dtype=DTYPES[faster])
    asked = task.recipe.train.compile is True or may_compile(task.recipe.train, device)
    return _with(
        task, compile=asked and bool(_decided(compiles_here, task, device, weights, ranks))
    )


def _compiled_as_before(
    task: Task[Any], stored: Recipe, device: torch.device, ranks: Ranks
) -> Task[Any]:
    """The task of a run that goes on: `auto` is what it became, where that still works here."""
    asked = task.recipe.train.compile
    asked = stored.train.compile if asked == "auto" else asked
    task = _with(task, compile=asked is True)
    if asked is not True:
        return task
    return _with(task, compile=bool(_decided(compiles_here, task, device, None, ranks)))


def _decided(
    find: Callable[[Trainer], int],
    task: Task[Any],
    device: torch.device,
    weights: Mapping[str, Tensor] | None,
    ranks: Ranks,
) -> int:
    """What the first rank finds by trials of its own."""
    found = find(make_trainer(task, device, TrainState(), weights, ALONE)) if ranks.leads else 0
    return int(ranks.told([found])[0])


def _with(task: Task[Any], **update: Any) -> Task[Any]:
    train = task.recipe.train.model_copy(update=update)
    recipe = task.recipe.model_copy(update={"train": train})
    changed: Task[Any] = dataclasses.replace(task, recipe=recipe)  # type: ignore[type-var]
    return changed


def _tell_no_rate(settings: TrainSettings) -> None:
    if not any(learning_rate(settings, step) for step in range(1, settings.steps + 1)):
        say("notice: the learning rate is 0 in every step: train longer, or by another schedule")


def _resumed(
    recipe: str | Path | Mapping[str, Any] | None,
    out: str | Path | None,
    overrides: Mapping[str, Any],
    device: torch.device,
    ranks: Ranks,
) -> Run:
    if recipe is None and out is None:
        raise UserError("no run is named", todo="give --out DIR")
    folder = RunFolder(Path(out) if out is not None else run_place(recipe, None))
    stored = stored_recipe(folder)
    if ranks.leads:
        folder.refuse_busy()
    settings = _asked(recipe, overrides, folder, stored)
    _refuse_changes(folder, stored, settings)
    task = task_of(settings).prepare(settings, folder)
    task = _compiled_as_before(task, stored, device, ranks)
    _check_data(folder, material_of(task).hashes)
    checkpoint, passed_over = newest_checkpoint(folder.checkpoints)
    for line in passed_over:
        say(line)
    state = TrainState() if checkpoint is None else _state_of(checkpoint, ranks)
    recall_best_mean(folder, state, task.recipe)
    again = checkpoint is not None and makes_again(folder, task.recipe, checkpoint, device, ranks)
    best = settle_best(folder, state, task.recipe, again=again)
    beginning = read_beginning(settings.to_table()) if checkpoint is None else None
    weights = None if beginning is None else beginning.weights_for(task.build())[0]
    agree(task, state, ranks)
    trainer = make_trainer(task, device, state, weights, ranks)
    if checkpoint is None:
        if passed_over:
            raise UserError(
                "no checkpoint of this run is whole",
                where=str(folder.checkpoints),
                todo="put one back, or start another run",
            )
        say(f"{folder.path}: no checkpoint yet, so training begins at step 0")
    else:
        _restore(trainer, checkpoint)
        steps = task.recipe.train.steps
        said = f"resumed {folder.path} after step {checkpoint.step} of {steps}"
        said += ": there is nothing left to train" if checkpoint.step >= steps else ""
        say(said)
    return Run(folder, task, trainer, device, resumed=True, best=best)


def _asked(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    folder: RunFolder,
    stored: Recipe,
) -> Recipe:
    """The recipe by which a run is to go on."""
    if recipe is None or (isinstance(recipe, str) and not recipe.endswith(".toml")):
        if recipe is not None:
            load_recipe_text(recipe)  # a name that does not exist is a mistake here too
        return load_recipe(folder.recipe(), overrides)
    # a file or table of the user's own, perhaps edited since
    where, table = recipe_table(recipe, {"train.dtype": stored.train.dtype, **overrides})
    if origin_of(table) is not None:  # what it began from need not be there any more
        table = with_settings(table, stored.model, where=where)
    return load_recipe(table, where=where)


def _refuse_changes(folder: RunFolder, stored: Recipe, wanted: Recipe) -> None:
    for key in ("__class__", *stored.FIXED):
        look = operator.attrgetter(key)
        if look(stored) != look(wanted):
            raise UserError(
                f"'{key}' of a run that has begun cannot change",
                where=str(folder.path),
                todo="start another run with another --out",
            )


def _restore(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """The weights and the optimisers of a checkpoint, of however many ranks it is."""
    if trainer.shards:
        tensors = load_shards(checkpoint.path, trainer.model)
    else:
        fill(trainer.model, checkpoint.weights(), where=str(checkpoint.path))
        tensors = checkpoint.optimizer()
    restore_optimizers(trainer.optimizers, trainer.model, tensors)


def _state_of(checkpoint: Checkpoint, ranks: Ranks) -> TrainState:
    table = checkpoint.state()
    table.pop("tied", None)
    here = {"threads": torch.get_num_threads(), "ranks": ranks.size}
    for what, n in here.items():
        before = table.pop(what, 1)  # checkpoints of one rank did not always say so
        if before != n:
            say(
                f"this run was trained with {before} {what} and goes on with {n}: "
                "sums may differ in the last bit"
            )
    return TrainState.from_table(table)


def run_place(recipe: str | Path | Mapping[str, Any] | None, out: str | Path | None) -> Path:
    """The folder of a run: `out`, or one named after the recipe.

    Raises UserError for a recipe that has no name to give.
    """
    if out is not None:
        return Path(out)
    if isinstance(recipe, str | Path):
        return Path("runs") / str(recipe).removesuffix(".toml").strip("./").replace("/", "-")
    raise UserError("a recipe given as a table has no name", todo="give out=FOLDER")


def _check_data(folder: RunFolder, hashes: Mapping[str, str]) -> None:
    stored = folder.data_hashes()
    changed = [name for name, digest in hashes.items() if stored.get(name) != digest]
    if changed:
        raise UserError(
            f"the {' and '.join(changed)} data are not what this run began with",
            where=str(folder.path),
            todo="put the original data back, or start another run",
        )
