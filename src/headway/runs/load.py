"""Opening what was trained."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.runtime import pick_device
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.models.build import build
from headway.runs.tokenizers import Tokenizers
from headway.runs.translator import Translator
from headway.settings.recipe import Recipe, load_recipe


def load(path: str | Path, *, device: str = "auto") -> Translator:
    """Open a run folder as a translator.

    Takes the best weights by the recipe's metric; before the first evaluation, those of the
    newest whole checkpoint, with a warning. Raises UserError if it is no run, one of another
    format, or damaged.
    """
    folder = RunFolder(Path(path))
    folder.config()
    recipe = load_recipe(folder.recipe())
    return translator_of(recipe, Tokenizers.read(folder), _weights(folder), pick_device(device))


def translator_of(
    recipe: Recipe, tokenizers: Tokenizers, weights: dict[str, Tensor], device: torch.device
) -> Translator:
    """A translator with these weights; raises UserError where they do not fit the recipe."""
    model = build(recipe.model, n_source=len(tokenizers.source), n_target=len(tokenizers.target))
    own = {name: value.shape for name, value in model.state_dict().items()}
    given = {name: value.shape for name, value in weights.items()}
    if own != given:
        wrong = sorted(
            name for name in own.keys() | given.keys() if own.get(name) != given.get(name)
        )
        raise UserError(
            f"the weights do not fit the settings: {len(wrong)} names are missing, surplus or of "
            f"another shape, {wrong[0]} first",
            todo="recipe.toml and model.safetensors must be of the same run",
        )
    model.load_state_dict(weights)
    return Translator(model.to(device), tokenizers, recipe, device)


def _weights(folder: RunFolder) -> dict[str, Tensor]:
    if not folder.has_weights():
        checkpoint, _ = newest_checkpoint(folder.checkpoints)
        if checkpoint is not None:
            warnings.warn(
                f"{folder.path} has not been evaluated yet: weights of step {checkpoint.step}",
                stacklevel=3,
            )
            return checkpoint.weights()
    return folder.weights()
