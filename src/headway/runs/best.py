"""The best weights of a run that goes on: whether those that are kept are of what it goes on from.

They are written at an evaluation, the checkpoint that knows of them later. A kill between the two
leaves weights of steps that are made again: alike, if nothing is done differently, or never.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.progress import say
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import Checkpoint, whole_checkpoints
from headway.checkpoint.weights import tensors_digest
from headway.settings.base import differences
from headway.settings.kinds import Recipe
from headway.training.fine_tuning import plain_weights
from headway.training.ranks import Ranks
from headway.training.state import TrainState

NONE: Mapping[str, Tensor] = {}  # of what is to stand in the folder: nothing


def makes_again(
    folder: RunFolder, recipe: Recipe, checkpoint: Checkpoint, device: torch.device, ranks: Ranks
) -> bool:
    """Whether the steps after a checkpoint come out bit for bit as they did before."""
    state = checkpoint.state()
    here = {"threads": torch.get_num_threads(), "ranks": ranks.size}
    alike = all(state.get(what, 1) == n for what, n in here.items())
    return alike and device.type == "cpu" and not differences(folder.recipe(), recipe.to_table())


def settle_best(
    folder: RunFolder, state: TrainState, recipe: Recipe, *, again: bool
) -> Mapping[str, Tensor] | None:
    """What is to stand in the folder as the best weights so far; None where it stands there.

    Where they are gone, damaged or of a step that is not made `again`, and no checkpoint has them,
    the next evaluation's are the best, which is said. Raises UserError if none is to come.
    """
    if state.best is None:
        return None
    try:
        kept = folder.weights()
    except UserError as error:
        _forget(folder, state, recipe.train.steps, error.what, error)
        return None
    if again or state.best_digest in (None, tensors_digest(kept)) or _is_mean(folder, state):
        return None
    for checkpoint in whole_checkpoints(folder.checkpoints, [state.best_step]):
        weights = plain_weights(checkpoint.weights(), recipe.train)
        if tensors_digest(weights) == state.best_digest:
            return weights
    what = "those that are kept are of a later step, which is made anew"
    _forget(folder, state, recipe.train.steps, what)
    return NONE


def put_best(folder: RunFolder, weights: Mapping[str, Tensor] | None) -> None:
    """Do what `settle_best` found, before the folder says that the run is done differently."""
    if weights:
        folder.save_weights(weights)
    elif weights is not None:
        folder.drop_weights()  # else a second resume, with nothing changed, would trust them


def _is_mean(folder: RunFolder, state: TrainState) -> bool:
    """Whether a mean of saves won after the checkpoint: it is made of what is saved."""
    return any(
        record["kind"] == "average" and record.get("best") and record["step"] == state.step
        for record in folder.metrics.read()
    )


def _forget(
    folder: RunFolder, state: TrainState, steps: int, why: str, error: UserError | None = None
) -> None:
    lost = f"the best weights, of step {state.best_step}, are lost ({why})"
    if state.step >= steps:
        todo = f"put the file back, or train on with --resume --set train.steps={2 * steps}"
        raise UserError(lost, where=str(folder.path), todo=todo) from error
    say(f"{folder.path}: {lost}; those of the next evaluation take their place")
    state.best, state.best_step, state.best_digest, state.stale = None, 0, None, 0
