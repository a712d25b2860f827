"""Beginning from a model that exists: its settings for the recipe, its weights for the new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.base.errors import UserError
from headway.checkpoint.exchange.folders import is_foreign
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.huggingface import read_model
from headway.checkpoint.run import RunFolder
from headway.data.rows import expand
from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.runs.load import run_weights, stored_recipe
from headway.settings.base import Settings
from headway.settings.kinds import Recipe
from headway.settings.model import NO_ORIGIN, DecoderSettings, EncoderSettings
from headway.settings.recipe import load_recipe, origin_of, recipe_table

# Weights that are a task's own: a model that lacks them begins with fresh ones
_OF_A_TASK = ("head.", "masked.", "follows.", "encoder.pooler.")
# Rows of these belong to an id each, and a file may have more of them than its tokeniser has ids
_OF_IDS = ("tokens.weight", "masked.output.weight", "masked.output.bias")
_EMBEDDING = "embedding.tokens.weight"
_SHOWN = 4  # names in a message


@dataclass(frozen=True)
class Beginning:
    """A model to begin from, by our names, and where it was."""

    settings: EncoderSettings | DecoderSettings
    weights: Mapping[str, Tensor]
    where: str

    def weights_for(self, model: nn.Module) -> tuple[dict[str, Tensor], str]:
        """All weights of a new model, those it has in common from here, and what to say of it.

        Raises UserError, naming all, for weights that are not there or of another shape.
        """
        given_all = _with_head(self.weights, model, self.where)
        found: dict[str, Tensor] = {}
        fresh, missing, misshaped = [], [], []
        of_ids = (*_OF_IDS, "head.weight") if isinstance(model, Decoder) else _OF_IDS
        for name, own in model.state_dict().items():
            given = given_all.get(name)
            if given is not None and name.endswith(of_ids) and given.shape[1:] == own.shape[1:]:
                given = given[: len(own)]
            found[name] = own
            if given is not None and given.shape == own.shape:
                found[name] = given
            elif name.startswith(_OF_A_TASK):
                fresh.append(name)
            elif given is None:
                missing.append(name)
            else:
                misshaped.append(f"{name} {tuple(given.shape)}, not {tuple(own.shape)}")
        faults = {"missing": missing, "of another shape": misshaped}
        if missing or misshaped:
            told = "; ".join(f"{what}: {_some(names)}" for what, names in faults.items() if names)
            raise UserError(
                f"these weights are not those of the recipe's model; {told}",
                where=self.where,
                todo="leave out the keys of [model] that say something else than they do",
            )
        left = [name for name in self.weights if name not in found]
        said = f"begins from {self.where}: {len(found) - len(fresh)} tensors and its tokeniser"
        said += f"; fresh: {_some(fresh)}" if fresh else ""
        said += f"; not taken: {_some(left)}" if left else ""
        return found, said


def begin(
    recipe: str | Path | Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[Recipe, Beginning | None]:
    """A recipe, checked, with the settings of the model that it begins from; and that model.

    Raises UserError if one of them is wrong, or they do not fit each other.
    """
    where, table = recipe_table(recipe, overrides)
    beginning = read_beginning(table)
    if beginning is not None:
        table = with_settings(table, beginning.settings, where=beginning.where)
    return load_recipe(table, where=where), beginning


def read_beginning(table: Mapping[str, Any]) -> Beginning | None:
    """What a recipe's table begins from, read; None if that is nothing.

    Raises UserError if there is no encoder and no decoder at that place, or one that Headway does
    not compute.
    """
    origin = origin_of(table)
    if origin is None:
        return None
    if not origin:
        raise UserError(NO_ORIGIN, where="model.from")
    place = Path(expand(origin, "model.from"))
    settings, weights = _read(place)
    if not isinstance(settings, EncoderSettings | DecoderSettings):
        raise UserError(
            f"a {settings.kind}, and training begins from an encoder or a decoder",
            where=str(place),
            todo="name another model",
        )
    return Beginning(settings, weights, str(place))


def with_settings(table: Mapping[str, Any], settings: Settings, *, where: str) -> dict[str, Any]:
    """A recipe's table with the settings of the model that it begins from; its own keys win.

    Raises UserError if it wants a model of the other kind.
    """
    own, theirs = dict(table["model"]), settings.to_table()
    if own.get("kind", theirs["kind"]) != theirs["kind"]:
        raise UserError(
            f"this model is of the kind '{theirs['kind']}', and the recipe trains '{own['kind']}'",
            where=where,
            todo="name another model, or another recipe",
        )
    return {**table, "model": {**theirs, **own}}


def _with_head(weights: Mapping[str, Tensor], model: nn.Module, where: str) -> Mapping[str, Tensor]:
    """The weights with those of a decoder's output, which are the embedding's where it has none.

    Raises UserError if they are to be one matrix and are two.
    """
    if not isinstance(model, Decoder) or _EMBEDDING not in weights:
        return weights
    embedding, head = weights[_EMBEDDING], weights.get("head.weight")
    if head is None:
        return {**weights, "head.weight": embedding}
    if model.head.weight is model.embedding.tokens.weight and not torch.equal(embedding, head):
        raise UserError(
            "its embedding and its output are two matrices, and model.tie makes them one",
            where=where,
            todo='leave model.tie out, or set model.tie = "none"',
        )
    return weights


def _read(place: Path) -> tuple[Any, Mapping[str, Tensor]]:
    if place.suffix == ".gguf":
        model, settings = read_gguf_model(GGUF(place))
        return settings, model.state_dict()
    if not is_foreign(place):
        folder = RunFolder(place)
        recipe = stored_recipe(folder)
        return recipe.model, run_weights(folder, recipe)
    found, settings = read_model(place)
    weights = found.state_dict()
    if isinstance(found, Encoder):  # a part of whatever is trained
        weights = {f"encoder.{name}": weight for name, weight in weights.items()}
    return settings, weights


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
