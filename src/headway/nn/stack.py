"""A stack of blocks: the one Transformer of which every model here is a row of settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headway.nn.attention import Attention, KeyValue, Past
from headway.nn.block import Block, Memory
from headway.nn.dropout import Noise
from headway.nn.norm import make_norm
from headway.nn.positions import Rotary
from headway.nn.visibility import Visibility
from headway.settings.model import StackSettings


class Cache(NamedTuple):
    """What a stack remembers of the tokens before: one entry a layer, the same S in each."""

    layers: tuple[KeyValue, ...]

    @property
    def n_rows(self) -> int:
        """B: how many rows it remembers."""
        return self.layers[0].key.shape[0]

    @property
    def length(self) -> int:
        """S: how many tokens came before."""
        return self.layers[0].key.shape[2]

    def select(self, rows: Tensor) -> Self:
        """The rows (N,) of the batch, in that order."""
        return self._replace(layers=tuple(layer.select(rows) for layer in self.layers))


class Remembered(Protocol):
    """What a stack can go on from."""

    @property
    def layers(self) -> Sequence[Past]:
        """One entry a layer."""


class Stack(nn.Module):
    """`n_layers` blocks; `crosses` gives each attention to a memory.

    `attentions` are the layers' own, where they are not the plain ones; of a layer that does not
    reach all `n_global` first keys are seen by all, and the others are `dilation` apart.

    With `recomputes` training keeps what enters a block, and computes the rest again in the
    backward pass (Chen et al., 2016, arXiv 1604.06174). With `compiles` it goes through
    torch.compile, in one graph; names and weights stay as they are.
    """

    def __init__(
        self,
        settings: StackSettings,
        n_layers: int,
        *,
        crosses: bool = False,
        attentions: Sequence[Attention] = (),
        n_global: int = 0,
        dilation: Sequence[int] = (1,),
    ) -> None:
        super().__init__()
        own = dict(enumerate(attentions))
        self.layers = nn.ModuleList(
            Block(settings, crosses=crosses, attention=own.get(place)) for place in range(n_layers)
        )
        self.n_global = n_global
        self.windows = [
            (settings.reach[place % len(settings.reach)], dilation[place % len(dilation)])
            for place in range(n_layers)
        ]
        self.recomputes = False
        self.compiles = False
        self.final_norm = make_norm(settings) if settings.order == "pre" else nn.Identity()
        self.rotary: Rotary | None = None
        if settings.positions == "rotary":
            self.rotary = Rotary(
                settings.head_width, settings.rotary_theta, settings.rotary_scaling
            )

    def memory_keys(self, hidden: Tensor) -> tuple[KeyValue, ...]:
        """What each layer's cross-attention looks at, computed once: (B, S, D) -> L times."""
        return tuple(layer.cross_attention.keys(hidden, None) for layer in self._blocks())

    def forward(
        self,
        hidden: Tensor,
        *,
        visibility: Visibility,
        positions: Tensor,
        memory: Sequence[Memory] | None = None,
        past: Remembered | None = None,
        noise: Noise | None = None,
    ) -> tuple[Tensor, Cache]:
        """(B, T, D) at absolute `positions` (T,) or (B, T) -> (B, T, D), and past plus present.

        Of what is to be recomputed there is no present.
        """
        trains = torch.is_grad_enabled()
        through = _compiled() if self.compiles and trains else Stack._through
        return through(
            self,
            hidden,
            visibility=visibility,
            positions=positions,
            memory=memory,
            past=past,
            noise=noise,
            recomputes=self.recomputes and trains,
        )

    def _through(
        self,
        hidden: Tensor,
        *,
        visibility: Visibility,
        positions: Tensor,
        memory: Sequence[Memory] | None,
        past: Remembered | None,
        noise: Noise | None,
        recomputes: bool,
    ) -> tuple[Tensor, Cache]:
        rotation = self.rotary(positions) if self.rotary is not None else None
        kept: list[KeyValue] = []
        # one value for all layers of a reach, so that they share its masks
        seen = {
            (width, apart): visibility.within(width, self.n_global, apart) if width else visibility
            for width, apart in set(self.windows)
        }
        for index, layer in enumerate(self._blocks()):
            run = partial(checkpoint, layer, use_reentrant=False) if recomputes else layer
            hidden, keys = run(
                hidden,
                visibility=seen[self.windows[index]],
                rotation=rotation,
                memory=memory[index] if memory is not None else None,
                past=past.layers[index] if past is not None else None,
                noise=noise,
            )
            if not recomputes:
                kept.append(keys)
        return self.final_norm(hidden), Cache(tuple(kept))

    def _blocks(self) -> list[Block]:
        return [layer for layer in self.layers if isinstance(layer, Block)]


@functools.cache
def _compiled() -> Callable[..., tuple[Tensor, Cache]]:
    return torch.compile(Stack._through, fullgraph=True)


def stacks_of(network: nn.Module) -> list[Stack]:
    """The stacks of a network; a recurrent one has none."""
    return [module for module in network.modules() if isinstance(module, Stack)]


def row_positions(real: Tensor) -> Tensor:
    """Positions counted from each row's own first real token: (B, S) boolean -> (B, S)."""
    return (real.long().cumsum(dim=-1) - 1).clamp_min(0)


def step_positions(start: int, T: int, device: torch.device) -> Tensor:
    """The T positions from `start` on: (T,)."""
    return torch.arange(start, start + T, device=device)
