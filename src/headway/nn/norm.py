"""Norms, computed in float32 whatever comes in."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.settings.model import StackSettings


class LayerNorm(nn.Module):
    """γ ⊙ (x − μ) / √(σ² + ε) + β (Ba et al., 2016), the variance inside the root."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, D) float32."""
        return F.layer_norm(hidden.float(), self.weight.shape, self.weight, self.bias, self.eps)


class LectureNorm(LayerNorm):
    """γ ⊙ (x − μ) / (σ + ε) + β, as lectures write it; σ is over all D features (divisor D)."""

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, D) float32; a row of equal features gives β, with finite gradients."""
        centred = hidden.float()
        centred = centred - centred.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        # √ has no gradient at 0: there the deviation is 0 as well, so any finite one will do
        deviation = variance.clamp_min(torch.finfo(torch.float32).tiny).sqrt()
        return centred / (deviation + self.eps) * self.weight + self.bias


class RMSNorm(nn.Module):
    """γ ⊙ x / √(mean(x²) + ε) (Zhang & Sennrich, 2019)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, D) float32."""
        return F.rms_norm(hidden.float(), self.weight.shape, self.weight, self.eps)


def make_norm(settings: StackSettings) -> nn.Module:
    """The norm that the settings name; "none" changes nothing."""
    if settings.norm == "none":
        return nn.Identity()
    kinds = {"layer": LayerNorm, "lecture": LectureNorm, "rms": RMSNorm}
    return kinds[settings.norm](settings.d_model, settings.norm_eps)
