"""The recipe that trains what a plan chose."""

from __future__ import annotations

import math
from typing import Any

from headway.base.errors import UserError, unknown
from headway.scaling.plan import Plan, Planned
from headway.scaling.units import short
from headway.settings.memory import Batch, training_bytes

_LEAST_ROWS = 8  # texts of a step
_WARMUP = (0.01, 2000)  # a share of the steps, and the most


def batch_and_rate(flops: float) -> tuple[float, float]:
    """Tokens of a step and the peak learning rate for a compute without embeddings.

    DeepSeek LLM (2024, arXiv 2401.02954), equation 1: measured from 1e17 to 2e19 FLOPs and used by
    them to 3e24; the rate is for AdamW.
    """
    return 0.2920 * flops**0.3271, 0.3118 * flops**-0.1250


def find_choice(plan: Plan, name: str | None) -> Planned:
    """A choice by its name, the first one without. Raises UserError for one that there is not."""
    names = {choice.name: choice for choice in plan.choices}
    if name is None:
        return plan.choices[0]
    if name not in names:
        raise unknown("choice", name, names, where="--choice")
    return names[name]


def is_trainable(planned: Planned) -> bool:
    """Whether `headway train` can make it: its first device has to hold the whole model."""
    return planned.placement is None or planned.placement.judged


def plan_recipe(planned: Planned, machine: str) -> dict[str, Any]:
    """The recipe as a table: data is to be named, all else is set.

    What was planned on `machine` is in it, for the run's report to compare. One process makes the
    whole step, `accumulate` batches of as many rows as fit on a device. What was placed in shards
    is trained so. Raises UserError for what `headway train` cannot.
    """
    shape, T, placement = planned.shape, planned.shape.length, planned.placement
    if not is_trainable(planned):
        raise UserError(
            f"headway train needs all {short(shape.parameters.all)} parameters on the first device "
            "to judge them, where they do not fit",
            where=f"the recipe of '{planned.name}'",
            todo="plan a smaller model, or a machine with more memory",
        )
    blocks = 6.0 * shape.parameters.without_embeddings * planned.tokens
    wanted, rate = batch_and_rate(blocks)
    rows = min(placement.rows if placement else 1, max(1, round(wanted / T)))
    accumulate = max(1, round(max(wanted, _LEAST_ROWS * T) / (rows * T)))
    steps = max(1, math.ceil(planned.tokens / (rows * T * accumulate)))
    every = max(1, round(steps / 20))
    size = short(shape.parameters.all)
    return {
        "description": f"Planned ({planned.name}): {size} parameters, "
        f"{short(planned.tokens)} tokens, expected loss {planned.loss.likely:.3f}.",
        "data": {
            "kind": "documents",
            "length": T,
            "held_out": 0.02,
            "train": {"text": {"files": "${TEXT}"}},
        },
        "tokenizer": {"kind": "bpe", "size": shape.n_tokens},
        "model": {k: v for k, v in shape.settings.to_table().items() if k not in _DEFAULTS},
        "train": {
            "steps": steps,
            "batch_tokens": rows * T,
            "accumulate": accumulate,
            "learning_rate": float(f"{rate:.2g}"),
            "warmup": min(round(_WARMUP[0] * steps), _WARMUP[1]),
            "dtype": placement.dtype if placement else "auto",
            "checkpoint_activations": bool(placement and placement.recomputes),
            "parallel": "shard" if placement and placement.shards > 1 else "replicate",
            "evaluate_every": every,
            "save_every": every,
        },
        "plan": _expected(planned, machine, rows, accumulate),
    }


def _expected(planned: Planned, machine: str, rows: int, accumulate: int) -> dict[str, Any]:
    """What the run's report will be compared with; the memory is that of the recipe's batches."""
    cost, placement = planned.cost, planned.placement
    spreads = {
        "tokens_per_second": cost.tokens_per_second,
        "hours": cost.hours,
        "loss": planned.loss,
    }
    found: dict[str, Any] = {"machine": machine, "devices": cost.devices, "tokens": planned.tokens}
    for name, each in spreads.items():
        found[name] = [float(f"{value:.6g}") for value in (each.low, each.likely, each.high)]
    if placement is not None:
        batch = Batch(
            rows,
            planned.shape.length,
            placement.dtype,
            recomputes=placement.recomputes,
            accumulates=accumulate > 1,
            device=placement.device,
        )
        settings, ids = planned.shape.settings, planned.shape.n_tokens
        need = training_bytes(settings, ids, batch, shards=placement.shards)
        found["memory"] = float(need.peak)
    return found


# What all such models have as the recipe's settings have it anyway.
_DEFAULTS = {
    *("score", "norm_eps", "residual", "rotary_theta", "scale_embedding", "norm_embedding"),
    *("attention_dropout", "activation_dropout"),
}
