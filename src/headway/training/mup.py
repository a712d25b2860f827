"""μP, the maximal update parametrisation: a learning rate that holds for all widths.

Yang et al., 2022 (arXiv 2203.03466), "Tensor Programs V". Of its equal formulations (table 8 and
lemma J.1) this is the one in which only first weights and learning rates depend on the width: the
network computes what it did, so that weights are exported and run as any others. By how many times
a model is wider than the base, the factor m of each weight's own at the base:

                            first weight    rate, Adam    rate, Muon
    embedding, output       1               1             1
    matrices in blocks      1/√m            1/m           1/√m
    norms, biases           1               1             1
    the norm after blocks   1/m             1/m           1/m

A decoder's first matrices go with 1/√width without that: those in blocks stay as they are, and the
embedding, positions and output are made √m times as large. The last row is the multiplier 1/m of
the output in table 8, which may thus be the embedding too.
Queries, where heads are k times as wide as the base's, have a further 1/√k in both: their scores
are divided by √K, not by the paper's K. A step of Muon is as large as Adam's a number, but of
matrices that are nearly orthogonal, whose norm grows with √m, not m (Yang et al., 2023, arXiv
2310.17813).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headway.models.decoder import Decoder
from headway.nn.attention import Attention
from headway.settings.training import LanguageTrainSettings, MupSettings, TrainSettings

Factors = dict[Tensor, tuple[float, float]]


def begin_mup(model: nn.Module, settings: TrainSettings) -> None:
    """Make first weights those of μP, if the settings have it; to be called once."""
    with torch.no_grad():
        for weight, (first, _) in _factors(model, settings).items():
            weight.mul_(first)


def mup_rates(model: nn.Module, settings: TrainSettings) -> dict[Tensor, float]:
    """The share of the learning rate of each weight that has not all of it."""
    return {weight: rate for weight, (_, rate) in _factors(model, settings).items()}


def _factors(model: nn.Module, settings: TrainSettings) -> Factors:
    mup = settings.mup if isinstance(settings, LanguageTrainSettings) else None
    if mup is None or not isinstance(model, Decoder):
        return {}
    wider = model.head.in_features / mup.base_width
    found: Factors = dict.fromkeys(model.stack.final_norm.parameters(), (1 / wider, 1 / wider))
    found |= {weight: (wider**0.5, 1.0) for weight in model.parameters() if weight.dim() == 2}
    matrices = 1.0, wider**-0.5 if settings.optimizer == "muon" else 1 / wider
    for module in model.stack.modules():
        if isinstance(module, nn.Linear):
            found[module.weight] = matrices
    for module in model.stack.modules():
        if isinstance(module, Attention):
            for weight in module.to_query.parameters():
                first, rate = found.get(weight, (1.0, 1.0))
                narrower = _head_factor(module, mup)
                found[weight] = first * narrower, rate * narrower
    return found


def _head_factor(attention: Attention, mup: MupSettings) -> float:
    width: int = attention.to_query.out_features // attention.n_heads
    return math.sqrt((mup.base_head or width) / width)
