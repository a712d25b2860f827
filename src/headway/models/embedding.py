"""From ids to the vectors that a stack is given."""

from __future__ import annotations

import math

from torch import Tensor, nn

from headway.nn.dropout import Dropout, Noise
from headway.nn.norm import make_norm
from headway.nn.positions import Learned, Sinusoidal
from headway.settings.model import StackSettings


class Embedding(nn.Module):
    """Token vectors, plus those of positions and segments where there are such, then dropout.

    The original multiplies the tokens by √D (Vaswani et al., 2017, section 3.4); BERT norms the sum
    (Devlin et al., 2019).
    """

    def __init__(self, tokens: nn.Embedding, settings: StackSettings, n_segments: int = 0) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(settings.d_model) if settings.scale_embedding else 1.0
        self.positions: Learned | Sinusoidal | None = None
        if settings.positions == "learned":
            self.positions = Learned(settings.max_length, settings.d_model)
        elif settings.positions == "sinusoidal":
            self.positions = Sinusoidal(settings.d_model)
        self.segments = nn.Embedding(n_segments, settings.d_model) if n_segments else None
        self.norm = make_norm(settings) if settings.norm_embedding else nn.Identity()
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, ids: Tensor, positions: Tensor, noise: Noise | None, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) ids at absolute positions (T,) or (B, T), of segments (B, T) -> (B, T, D).

        Without `segments` all is of the first.
        """
        hidden = self.tokens(ids)
        if self.scale != 1.0:
            hidden = hidden * self.scale
        if self.positions is not None:
            hidden = hidden + self.positions(positions)
        if self.segments is not None:
            first = self.segments.weight[0]
            hidden = hidden + (first if segments is None else self.segments(segments))
        dropped: Tensor = self.dropout(self.norm(hidden), noise)
        return dropped
