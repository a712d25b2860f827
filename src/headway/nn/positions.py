"""Positions: what tells a network in which order its tokens stand."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.settings.model import RotaryScaling


class Learned(nn.Module):
    """One trained vector a position (Gehring et al., 2017)."""

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_length, width) * width**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) or (B, T) absolute positions -> (…, D)."""
        return self.weight[positions]


class Sinusoidal(nn.Module):
    """sin and cos of the position at wavelengths from 2π to 10000 · 2π, taking turns.

    Vaswani et al. 2017, section 3.5. Computed for the positions that come, so no length is the
    last one.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) or (B, T) absolute positions -> (…, D) float32."""
        even = torch.arange(0, self.width, 2, device=positions.device, dtype=torch.float32)
        angles = positions[..., None].float() * 10_000.0 ** (-even / self.width)  # (…, D/2)
        waves = torch.stack((angles.sin(), angles.cos()), dim=-1)  # (…, D/2, 2)
        return waves.flatten(-2)[..., : self.width]  # (…, D)


class Rotation(NamedTuple):
    """Cosines and sines that turn queries and keys, each (T, K) or (B, 1, T, K) float32.

    The sines of the first half are negative.
    """

    cos: Tensor
    sin: Tensor

    def first(self, n: int) -> Rotation:
        """That of the first `n` positions."""
        return Rotation(self.cos[..., :n, :], self.sin[..., :n, :])

    def turn(self, heads: Tensor) -> Tensor:
        """(B, H, T, K) -> (B, H, T, K): the pair (x_i, x_{i+K/2}) turns by its angle."""
        exact = heads.float()
        swapped = exact.roll(heads.shape[-1] // 2, dims=-1)
        return torch.addcmul(exact * self.cos, swapped, self.sin).to(heads.dtype)


class Rotary(nn.Module):
    """Turns queries and keys by angles that grow with the position (Su et al., 2021).

    So the score of a query at i and a key at j depends on i − j only. Pairs are halves:
    (x_i, x_{i+K/2}).
    """

    def __init__(self, head_width: int, theta: float, scaling: RotaryScaling | None = None) -> None:
        super().__init__()
        self.head_width, self.theta, self.scaling = head_width, theta, scaling

    def frequencies(self, device: torch.device) -> Tensor:
        """Radians a position: (K/2,) float32."""
        even = torch.arange(0, self.head_width, 2, device=device, dtype=torch.float32)
        frequencies = self.theta ** (-even / self.head_width)
        return frequencies if self.scaling is None else stretch(frequencies, self.scaling)

    def forward(self, positions: Tensor) -> Rotation:
        """(T,) or (B, T) absolute positions -> the rotation at them, angles in float32."""
        angles = positions[..., None].float() * self.frequencies(positions.device)  # (…, T, K/2)
        angles = torch.cat((-angles, angles), dim=-1)  # (…, T, K)
        if positions.dim() == 2:
            angles = angles[:, None]  # (B, 1, T, K)
        return Rotation(angles.cos(), angles.sin())


def stretch(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    """Frequencies (K/2,) as Llama 3.1 slows them down (Dubey et al., 2024, section 3.4.2).

    Between the two bounds the slow and the fast one are mixed, linearly in the number of turns that
    the original length has.
    """
    turns = scaling.original_max_length * frequencies / (2 * math.pi)
    low, high = scaling.low_frequency, scaling.high_frequency
    share = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * (share + (1.0 - share) / scaling.factor)
