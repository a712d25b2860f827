"""Dropout as a pure function of (seed, step, micro-batch, place): cheap, and the same on resume.

The usual kernel draws one Mersenne-Twister number an element on one thread, which costs more than
the matrix products beside it. Here an element costs one random byte: the rate is rounded to the
nearest 1/256, and the scale to 1 / (1 - that).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Noise:
    """Where in the training the randomness belongs; passing None instead means no dropout."""

    seed: int
    step: int
    micro_batch: int = 0

    def at(self, place: int) -> list[int]:
        """The key of one place in the network."""
        return [self.seed & 0xFFFFFFFF, self.step, self.micro_batch, place]


@dataclass(frozen=True)
class Drop:
    """What a dropout does at one time and place: a share `rate` of the elements becomes 0."""

    rate: float
    key: tuple[int, ...]

    def mask(self, like: Tensor, *tile: int) -> Tensor:
        """0 or the scale for each element; of a tensor that is never there as a whole, tile by
        tile, each by its number.
        """
        return keep_mask(like.shape, self.rate, [*self.key, *tile], like)


class Dropout(nn.Module):
    """Sets a share `rate` of the elements to 0 and scales the rest, if noise is given.

    `place` tells the dropouts of a network apart; `number_places` sets it. With `one_mask` all
    positions of a row lose the same elements (variational dropout: Gal & Ghahramani, 2016).
    """

    def __init__(self, rate: float, *, one_mask: bool = False) -> None:
        super().__init__()
        self.rate, self.one_mask = rate, one_mask
        self.place = -1

    def forward(self, hidden: Tensor, noise: Noise | None) -> Tensor:
        """Any shape -> the same shape; (B, T, D) with `one_mask`."""
        drop = self.drop(noise)
        if drop is None:
            return hidden
        return hidden * drop.mask(hidden[:, :1] if self.one_mask else hidden)

    def drop(self, noise: Noise | None) -> Drop | None:
        """What it does under this noise; None if that is nothing."""
        if noise is None or self.rate == 0.0:
            return None
        assert self.place >= 0, "number_places was not called on this network"
        return Drop(self.rate, tuple(noise.at(self.place)))

    def extra_repr(self) -> str:
        """What print(module) shows."""
        return f"rate={self.rate}, place={self.place}"


def keep_mask(shape: torch.Size, rate: float, key: list[int], like: Tensor) -> Tensor:
    """0 for a share `rate` of the elements, else the scale; dtype and device of `like`."""
    if torch.compiler.is_compiling():
        made: Tensor = _opaque(list(shape), rate, key, like.detach())
        return made
    return _keep_mask(shape, rate, key, like)


def _keep_mask(shape: Sequence[int], rate: float, key: Sequence[int], like: Tensor) -> Tensor:
    dropped = min(round(rate * 256), 255)  # a scale of 1/0 is none
    size = math.prod(shape)
    if like.device.type == "cpu":
        words = np.random.SFC64(np.random.SeedSequence(key)).random_raw(size // 8 + 1)
        keep = torch.from_numpy((words.view(np.uint8)[:size] >= dropped).view(np.uint8))
    else:
        state = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
        generator = torch.Generator(like.device).manual_seed(state)
        keep = torch.empty(size, dtype=torch.uint8, device=like.device)
        keep = keep.random_(0, 256, generator=generator) >= dropped
    return keep.view(*shape).to(like.dtype).mul_(256 / (256 - dropped))


# NumPy's and torch's own generators break the graph of torch.compile, one call of unknown does not
_opaque = torch.library.custom_op("headway::keep_mask", _keep_mask, mutates_args=())
_opaque.register_fake(lambda shape, rate, key, like: like.new_empty(shape))


def number_places(network: nn.Module) -> None:
    """Give each Dropout of a network its place: its rank in the order of the module tree."""
    dropouts = (module for module in network.modules() if isinstance(module, Dropout))
    for place, dropout in enumerate(dropouts):
        dropout.place = place
