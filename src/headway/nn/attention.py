"""Attention layers: from self-attention without projections to grouped multi-head attention."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.nn.attend import attend
from headway.nn.dropout import Dropout, Noise
from headway.nn.positions import Rotation
from headway.nn.scores import Score, make_score
from headway.nn.tap import Tap
from headway.nn.visibility import Visibility
from headway.settings.model import StackSettings


def self_attention(hidden: Tensor, *, score: Score, visibility: Visibility) -> Tensor:
    """The simplest case: each vector becomes a mean of the vectors that it scores highly.

    Nothing is learned but what the score has; `hidden` (B, T, D) is query, key and value at once.
    Gives (B, T, D).
    """
    heads = hidden[:, None]  # (B, 1, T, D)
    return attend(heads, score.keys(heads), heads, score=score, visibility=visibility)[:, 0]


class KeyValue(NamedTuple):
    """Keys as the score prepares them (B, G, S, ·) and values (B, G, S, K): a cache as a value."""

    key: Tensor
    value: Tensor

    def append(self, new: KeyValue) -> KeyValue:
        """These and then the new ones: S grows."""
        return KeyValue(
            torch.cat((self.key, new.key), dim=2), torch.cat((self.value, new.value), dim=2)
        )

    def select(self, rows: Tensor) -> KeyValue:
        """The rows (N,) of the batch, in that order."""
        return KeyValue(self.key[rows], self.value[rows])


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al., 2017, section 3.2.2) with grouped key/value heads.

    Fewer key/value heads than query heads is grouped-query attention (Ainslie et al., 2023). The
    same layer attends to its own sequence or to another (cross-attention): that depends only on
    whose `keys` it is given.
    """

    def __init__(self, settings: StackSettings) -> None:
        super().__init__()
        D, K, bias = settings.d_model, settings.head_width, settings.biases_attention
        self.n_heads, self.n_kv_heads = settings.n_heads, settings.kv_heads
        self.to_query = nn.Linear(D, self.n_heads * K, bias=bias)
        self.to_key = nn.Linear(D, self.n_kv_heads * K, bias=bias)
        self.to_value = nn.Linear(D, self.n_kv_heads * K, bias=bias)
        self.to_output = nn.Linear(self.n_heads * K, D, bias=bias)
        self.score = make_score(
            settings.score,
            K,
            K,
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            rank=settings.score_rank,
        )
        self.dropout = Dropout(settings.attention_dropout)
        self.tap_weights = Tap()

    def keys(self, hidden: Tensor, rotation: Rotation | None) -> KeyValue:
        """(B, S, D) -> keys and values (B, G, S, K)."""
        key, value = (
            _split(self.to_key(hidden), self.n_kv_heads),
            _split(self.to_value(hidden), self.n_kv_heads),
        )
        return KeyValue(self.score.keys(rotation.turn(key) if rotation else key), value)

    def forward(
        self,
        hidden: Tensor,
        keys: KeyValue,
        *,
        visibility: Visibility,
        rotation: Rotation | None,
        noise: Noise | None,
    ) -> Tensor:
        """(B, T, D) attending to S keys -> (B, T, D)."""
        query = _split(self.to_query(hidden), self.n_heads)  # (B, H, T, K)
        drops = noise is not None and self.dropout.rate > 0.0

        def on_weights(weights: Tensor) -> Tensor:
            dropped: Tensor = self.dropout(self.tap_weights(weights), noise)
            return dropped

        attended = attend(
            rotation.turn(query) if rotation else query,
            keys.key,
            keys.value,
            score=self.score,
            visibility=visibility,
            on_weights=on_weights if drops or self.tap_weights.watched else None,
        )
        merged = attended.transpose(1, 2).flatten(2)  # (B, T, H·K)
        result: Tensor = self.to_output(merged)
        return result


def _split(hidden: Tensor, heads: int) -> Tensor:
    B, T, width = hidden.shape
    return hidden.view(B, T, heads, width // heads).transpose(1, 2)  # (B, T, H·K) -> (B, H, T, K)
