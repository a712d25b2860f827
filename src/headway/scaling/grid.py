"""Which runs a sweep makes: sizes at equal compute, each a recipe of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.base.errors import UserError
from headway.scaling.laws import TRAINING
from headway.scaling.shapes import resized
from headway.scaling.units import quantity, short
from headway.settings.counting import count_parameters, training_flops
from headway.settings.kinds import LanguageRecipe
from headway.settings.model import DecoderSettings
from headway.settings.training import MupSettings

SUITED = 20.0  # tokens a parameter of the size that factors are of (Hoffmann 2022)
LEAST_STEPS = 20  # of a run: with fewer it is all warm-up
_WARMUP = 0.1  # of the steps, at the most
_LOGS = 20  # records of the training loss a run has at least


@dataclass(frozen=True)
class GridRun:
    """A run of a sweep: its compute by our count (attention in full), its size, its recipe."""

    name: str
    budget: float
    params: int
    flops_a_token: float
    steps: int
    recipe: dict[str, Any]

    @property
    def flops(self) -> float:
        """What it takes in all: the budget, but for the rounding to whole steps."""
        return self.flops_a_token * self.tokens

    @property
    def tokens(self) -> int:
        """Training tokens."""
        train = self.recipe["train"]
        return self.steps * tokens_a_step(self.recipe["data"]["length"], train)


def tokens_a_step(length: int, train: dict[str, Any]) -> int:
    """As many whole rows a batch as there is room for."""
    rows: int = train["batch_tokens"] // length
    return rows * length * int(train["accumulate"])


def budgets_of(text: str) -> list[float]:
    """ "1e12,3e12" -> FLOPs, the least first."""
    return sorted({quantity(part, where="--budgets") for part in text.split(",")})


def sizes_of(text: str) -> list[tuple[float, bool]]:
    """ "0.1M,0.5x" -> numbers, and whether each is a factor."""
    found = []
    for part in (each.strip() for each in text.split(",")):
        factor = part.endswith("x")
        found.append((quantity(part.removesuffix("x"), where="--sizes"), factor))
    return found


def make_grid(
    recipe: LanguageRecipe,
    n_tokens: int,
    budgets: Sequence[float],
    sizes: Sequence[tuple[float, bool]],
) -> tuple[list[GridRun], list[str]]:
    """The runs, the least compute first, and what is to be said of those that are left out.

    A size is a number of parameters, or a factor of the size that has 20 tokens a parameter at
    that budget. Raises UserError if no run is left.
    """
    made: dict[str, GridRun] = {}
    notices = []
    for budget in budgets:
        for value, factor in sizes:
            params = value * math.sqrt(budget / TRAINING / SUITED) if factor else value
            model = resized(recipe.model, n_tokens, params)
            run = grid_run(recipe, n_tokens, model, budget)
            if run.steps < LEAST_STEPS:
                notices.append(f"left out: {run.name}, which is {run.steps} steps")
            else:
                made[run.name] = run
    if not made:
        raise UserError(
            f"no run has {LEAST_STEPS} steps",
            where="--budgets",
            todo="raise them, or lower train.batch_tokens of the recipe",
        )
    return sorted(made.values(), key=lambda run: (run.budget, run.params)), notices


def grid_run(
    recipe: LanguageRecipe,
    n_tokens: int,
    model: DecoderSettings,
    budget: float,
    name: str | None = None,
) -> GridRun:
    """The run of a model that takes so many FLOPs, with the recipe's batch.

    The learning rate is the recipe's, carried over from its own width by μP. The warm-up is the
    recipe's, but at most a tenth of the steps; all is evaluated at the end alone.
    """
    params = count_parameters(model, n_tokens).all
    length = recipe.data.length or recipe.model.max_length
    a_token = sum(training_flops(model, n_tokens, length).values())
    table = recipe.to_table()
    train = table["train"]
    steps = max(1, round(budget / a_token / tokens_a_step(length, train)))
    mup = recipe.train.mup or MupSettings(base_width=recipe.model.d_model)
    table |= {"model": model.to_table(), "data": {**table["data"], "length": length}}
    table["train"] = {
        **train,
        "mup": mup.to_table(),
        "steps": steps,
        "warmup": min(recipe.train.warmup, round(_WARMUP * steps)),
        "evaluate_every": steps,
        "log_every": min(recipe.train.log_every, max(1, steps // _LOGS)),
        "patience": 0,
    }
    table["evaluate"]["samples"] = 0
    size = short(params)
    name = name or f"{budget:.3g}-{size}".replace("+", "")
    table["description"] = f"Of a sweep: {size} parameters, {short(budget)} FLOPs."
    return GridRun(name, budget, params, a_token, steps, table)
