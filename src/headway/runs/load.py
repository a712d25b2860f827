"""Opening what was trained."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.runtime import pick_device
from headway.checkpoint.run import CONFIG, RECIPE, RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.checkpoint.weights import fill
from headway.runs.tasks.all import task_of
from headway.runs.tasks.base import O, Task
from headway.settings.base import parse
from headway.settings.kinds import Recipe
from headway.settings.recipe import load_recipe
from headway.training.fine_tuning import plain_weights


def open_run(path: str | Path, *, device: str = "auto") -> Any:
    """Open a run folder: as a `Translator`, a `LanguageModel`, whatever its recipe trains.

    Takes the best weights by the recipe's metric; before the first evaluation, those of the
    newest whole checkpoint, with a warning. Raises UserError if it is no run, one of another
    format, or damaged.
    """
    folder = RunFolder(Path(path))
    recipe = stored_recipe(folder)
    return open_weights(folder, task_of(recipe).read(recipe, folder), pick_device(device))


def open_weights(folder: RunFolder, task: Task[O], device: torch.device) -> O:
    """The model of a run's task with the run's weights. Raises UserError as `open_run` does."""
    weights = run_weights(folder, task.recipe)
    where = str(folder.path)
    _refuse_not_finite(weights, where)
    return opened(task, weights, device, where=where)


def stored_recipe(folder: RunFolder) -> Recipe:
    """The recipe of a run. Raises UserError if it is not of the model that was trained."""
    config = folder.whole_config()
    recipe = load_recipe(folder.recipe(), where=str(folder.path / RECIPE))
    model = recipe.model
    if model != parse(type(model), config["model"], where=str(folder.path / CONFIG)):
        raise UserError(
            f"its model is not the one in {CONFIG}, which the weights are of",
            where=str(folder.path / RECIPE),
            todo="put the original file back, or train the changed recipe as a new run",
        )
    return recipe


def opened(task: Task[O], weights: Mapping[str, Tensor], device: torch.device, *, where: str) -> O:
    """The model of a task with these weights; raises UserError where they do not fit it."""
    model = task.build()
    fill(model, weights, where=where)
    return task.open(model.to(device), device)


def _refuse_not_finite(weights: dict[str, Tensor], where: str) -> None:
    for name, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            raise UserError(
                f"the weights '{name}' are not all finite numbers",
                where=where,
                todo="they are damaged, or the training diverged: use an earlier checkpoint",
            )


def run_weights(folder: RunFolder, recipe: Recipe) -> dict[str, Tensor]:
    """The best weights of a run, those of its newest checkpoint before there are such."""
    if not folder.has_weights():
        checkpoint, passed_over = newest_checkpoint(folder.checkpoints)
        for message in passed_over:
            warnings.warn(message, stacklevel=3)
        if checkpoint is not None:
            warnings.warn(
                f"{folder.path} has not been evaluated yet: weights of step {checkpoint.step}",
                stacklevel=3,
            )
            return plain_weights(checkpoint.weights(), recipe.train)
    return folder.weights()
