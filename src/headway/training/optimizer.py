"""The optimiser, and its state as named tensors that safetensors can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headway.settings.training import TrainSettings


def make_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba, 2015) or AdamW (Loshchilov & Hutter, 2019), one fused step.

    Matrices decay if `weight_decay` is set; vectors (norms, biases) never do.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.betas[0], settings.betas[1]),
        eps=settings.eps,
        fused=True,
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's state as `weight's name/part`."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{names[weight]}/{part}": value
        for weight, parts in optimizer.state.items()
        for part, value in parts.items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        parts.setdefault(name, {})[part] = value
    weights = dict(model.named_parameters())
    # through load_state_dict, which knows the device and dtype that each part needs
    order = {weight: index for index, weight in enumerate(_weights(optimizer))}
    state = {order[weights[name]]: values for name, values in parts.items()}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]
