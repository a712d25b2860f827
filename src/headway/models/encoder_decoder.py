"""What every encoder–decoder answers, whatever it is made of.

Training asks for `encode`, `decode` and `head`; decoding for `start` and `step`. Padding stands at
the end of rows and is told by a boolean `real`, never by an id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from headway.nn.dropout import Noise

Encoded = TypeVar("Encoded")
State = TypeVar("State")


class EncoderDecoder(nn.Module, ABC, Generic[Encoded, State]):
    """A network from source ids to the logits of the next target id."""

    head: nn.Linear

    @abstractmethod
    def vocabulary_sizes(self) -> tuple[int, int]:
        """How many source and target ids there are rows for."""

    @abstractmethod
    def alignment_taps(self) -> list[str]:
        """Names of the taps on the attention from target to source, one a layer; maybe none."""

    @abstractmethod
    def encode(self, source: Tensor, real: Tensor, noise: Noise | None = None) -> Encoded:
        """Read a source: ids (B, S) and which of them are real (B, S)."""

    @abstractmethod
    def decode(self, target: Tensor, encoded: Encoded, noise: Noise | None = None) -> Tensor:
        """Ids (B, T) that begin with the start symbol -> hidden (B, T, D), to be given to `head`.

        Separate from `head` so that logits need be made of real tokens only.
        """

    @abstractmethod
    def begin(self, encoded: Encoded) -> State:
        """The state before the first target token."""

    @abstractmethod
    def advance(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """Ids (N, T) after the state -> hidden (N, T, D) and the state after them."""

    def forward(
        self, source: Tensor, real: Tensor, target: Tensor, noise: Noise | None = None
    ) -> Tensor:
        """Ids (B, S), real (B, S), ids (B, T) -> logits (B, T, V) of what follows each target."""
        hidden = self.decode(target, self.encode(source, real, noise), noise)
        logits: Tensor = self.head(hidden)
        return logits

    def start(self, source: Tensor, lengths: Tensor) -> State:
        """Read a source for decoding: ids (B, S), of which each row has `lengths` (B,) real."""
        real = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return self.begin(self.encode(source, real))

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """Ids (N, T) after the state -> logits (N, T, V) and the state after them."""
        hidden, state = self.advance(ids, state)
        return self.head(hidden), state
