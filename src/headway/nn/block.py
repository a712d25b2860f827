"""One block: self-attention, attention to a memory where there is one, feed-forward.

post-norm (Vaswani et al., 2017):  x ← norm(x + f(x))
pre-norm  (GPT-2, Llama):          x ← x + f(norm(x))
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from headway.nn.attention import Attention, KeyValue
from headway.nn.dropout import Dropout, Noise
from headway.nn.feed_forward import make_feed_forward
from headway.nn.norm import make_norm
from headway.nn.positions import Rotation
from headway.nn.visibility import Visibility
from headway.settings.model import StackSettings


class Residual(nn.Module):
    """The way around a part of a block: its norm, its dropout and the addition."""

    def __init__(self, settings: StackSettings) -> None:
        super().__init__()
        self.norm = make_norm(settings)
        self.dropout = Dropout(settings.dropout)
        self.pre = settings.order == "pre"
        self.adds = settings.residual

    def enter(self, hidden: Tensor) -> Tensor:
        """What the part is given: (B, T, D) -> (B, T, D)."""
        return self.norm(hidden) if self.pre else hidden

    def leave(self, hidden: Tensor, change: Tensor, noise: Noise | None) -> Tensor:
        """What goes on after the part made `change` of `hidden`: (B, T, D)."""
        change = self.dropout(change, noise)
        hidden = hidden + change if self.adds else change
        return hidden if self.pre else self.norm(hidden)


class Memory(NamedTuple):
    """What a block attends to beside its own sequence, and which of it is visible."""

    keys: KeyValue
    visibility: Visibility


class Block(nn.Module):
    """One layer of a stack; `crosses` adds attention to a memory."""

    def __init__(
        self, settings: StackSettings, *, crosses: bool, attention: Attention | None = None
    ) -> None:
        super().__init__()
        self.attention = attention or Attention(settings)
        self.around_attention = Residual(settings)
        if crosses:
            self.cross_attention = Attention(settings)
            self.around_cross_attention = Residual(settings)
        self.feed_forward = make_feed_forward(settings)
        self.around_feed_forward = Residual(settings)

    def forward(
        self,
        hidden: Tensor,
        *,
        visibility: Visibility,
        rotation: Rotation | None,
        memory: Memory | None,
        past: KeyValue | None,
        noise: Noise | None,
    ) -> tuple[Tensor, KeyValue]:
        """(B, T, D) -> (B, T, D), and the keys and values of past and present.

        The memory has B rows, or fewer that each serve as many neighbouring rows.
        """
        entered = self.around_attention.enter(hidden)
        query, keys = self.attention.own(entered, rotation)
        if past is not None:
            keys = past.append(keys)
        change = self.attention(
            entered, keys, query=query, visibility=visibility, rotation=rotation, noise=noise
        )
        hidden = self.around_attention.leave(hidden, change, noise)
        if memory is not None:
            # Rows that share one of the R memories ask it as several queries of one row.
            R = memory.keys.key.shape[0]
            asking = self.around_cross_attention.enter(hidden).reshape(R, -1, hidden.shape[-1])
            change = self.cross_attention(
                asking,  # (R, B / R · T, D)
                memory.keys,
                visibility=memory.visibility,
                rotation=None,
                noise=noise,
            ).view_as(hidden)
            hidden = self.around_cross_attention.leave(hidden, change, noise)
        change = self.feed_forward(self.around_feed_forward.enter(hidden), noise)
        return self.around_feed_forward.leave(hidden, change, noise), keys
