"""The optimisers, and their state as named tensors that safetensors can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.settings.training import TrainSettings
from headway.training.muon import Muon
from headway.training.mup import mup_rates

_HEADS = ("head", "follows")  # of a model: they give logits


def make_optimizers(model: nn.Module, settings: TrainSettings) -> list[torch.optim.Optimizer]:
    """The optimisers that together step every weight of a model once.

    Adam (Kingma & Ba, 2015) or AdamW (Loshchilov & Hutter, 2019), one fused step; or Muon (Jordan
    et al., 2024) for the matrices of linear and recurrent layers and AdamW for the rest. Rows of an
    embedding, and of a head that gives logits, belong to a token or a class each: orthogonal steps
    would move rare ones as far as frequent ones, so AdamW keeps them. One rate serves both, since a
    step of Muon is made as large as one of Adam.

    Matrices decay if `weight_decay` is set; vectors (norms, biases) never do. Each group has the
    `share` of the learning rate that is its own (μP); what decays in a step is the same with any.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    muon: list[nn.Parameter] = []
    if settings.optimizer == "muon":
        rows = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
        heads = [getattr(model, name, None) for name in _HEADS]
        rows |= {head.weight for head in heads if isinstance(head, nn.Linear)}
        kinds = nn.Linear | nn.RNNBase
        layers = [module for module in model.modules() if isinstance(module, kinds)]
        inside = {weight for layer in layers for weight in layer.parameters() if weight.dim() == 2}
        muon = [weight for weight in weights if weight in inside - rows]
    rest = [weight for weight in weights if weight not in set(muon)]
    rates = mup_rates(model, settings)
    made: list[torch.optim.Optimizer] = []
    if muon:
        dtype = torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32
        groups = _groups(muon, settings, rates)
        made.append(Muon(groups, lr=settings.learning_rate, dtype=dtype))
    if rest:
        kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
        betas = (settings.betas[0], settings.betas[1])
        groups = _groups(rest, settings, rates)
        made.append(
            kind(groups, lr=settings.learning_rate, betas=betas, eps=settings.eps, fused=True)
        )
    return made


def _groups(
    weights: Sequence[nn.Parameter], settings: TrainSettings, rates: Mapping[Tensor, float]
) -> list[dict[str, Any]]:
    """Matrices, then vectors, by their share of the rate."""
    found: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for weight in weights:
        found.setdefault((weight.dim() < 2, rates.get(weight, 1.0)), []).append(weight)
    return [
        {
            "params": found[flat, share],
            "share": share,
            "lr": share * settings.learning_rate,
            "weight_decay": 0.0 if flat else settings.weight_decay / share,
        }
        for flat, share in sorted(found)
    ]


def optimizer_tensors(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module
) -> dict[str, Tensor]:
    """The optimisers' state as `weight's name/part`."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{names[weight]}/{part}": value
        for optimizer in optimizers
        for weight, parts in optimizer.state.items()
        for part, value in parts.items()
    }


def restore_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave."""
    weights = dict(model.named_parameters())
    parts: dict[Tensor, dict[str, Any]] = {}
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        parts.setdefault(weights[name], {})[part] = value
    for optimizer in optimizers:
        # through load_state_dict, which knows the device and dtype that each part needs
        stepped = [weight for group in optimizer.param_groups for weight in group["params"]]
        state = {i: parts[weight] for i, weight in enumerate(stepped) if weight in parts}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
