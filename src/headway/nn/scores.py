"""Scores: how a query and a key become one number.

Each works on (B, H, T, ·) queries and (B, G, S, ·) keys, H a multiple of G, with parameters a
head; the recurrent decoder uses them with H = 1. All but the additive score are a dot product with
a changed query, q'·k, so that any kernel for dot products computes them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from headway.settings.model import Score as ScoreName


class Score(nn.Module, ABC):
    """A score of H query heads of width `d_query` against G key heads of width `d_key`.

    All are made with the same arguments, of which each uses what it has: `rank` is its R.
    """

    def keys(self, key: Tensor) -> Tensor:
        """What of the score depends on the key alone, computed once: (B, G, S, ·)."""
        return key

    @abstractmethod
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, H, T, K), prepared keys (B, G, S, ·) -> (B, H, T, S)."""


class DotScore(Score):
    """Dot: q·k (Luong et al., 2015, section 3.1)."""

    one_width = True

    def __init__(
        self, d_query: int, d_key: int, n_heads: int, n_kv_heads: int, rank: int | None
    ) -> None:
        super().__init__()
        if self.one_width and d_query != d_key:
            raise ValueError(f"a dot product needs one width, not {d_query} and {d_key}")

    def change(self, query: Tensor) -> Tensor:
        """q' such that the score is q'·k: (B, H, T, K) -> (B, H, T, K of the key)."""
        return query

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, H, T, K), (B, G, S, K) -> (B, H, T, S)."""
        query = self.change(query)
        B, H, T, K = query.shape
        G, S = key.shape[1:3]
        if H == G:
            return query @ key.mT
        grouped = query.reshape(B, G, H // G * T, K)  # heads of one group share their keys
        scores: Tensor = grouped @ key.mT
        return scores.view(B, H, T, S)


class ScaledDotScore(DotScore):
    """Scaled dot: q·k / √K (Vaswani et al., 2017, section 3.2.1)."""

    def change(self, query: Tensor) -> Tensor:
        """q / √K."""
        return query / math.sqrt(query.shape[-1])


class BilinearScore(DotScore):
    """Bilinear: q W k with W (K of the query, K of the key) (Luong et al., 2015, "general")."""

    one_width = False

    def __init__(
        self, d_query: int, d_key: int, n_heads: int, n_kv_heads: int, rank: int | None
    ) -> None:
        super().__init__(d_query, d_key, n_heads, n_kv_heads, rank)
        self.weight = nn.Parameter(_uniform(n_heads, d_query, d_key))

    def change(self, query: Tensor) -> Tensor:
        """q W."""
        return query @ self.weight


class LowRankBilinearScore(DotScore):
    """Low-rank bilinear: q U W k, with U (K of the query, R) and W (R, K of the key)."""

    one_width = False

    def __init__(
        self, d_query: int, d_key: int, n_heads: int, n_kv_heads: int, rank: int | None
    ) -> None:
        super().__init__(d_query, d_key, n_heads, n_kv_heads, rank)
        if rank is None:
            raise ValueError("a low-rank bilinear score needs its rank")
        self.query_weight = nn.Parameter(_uniform(n_heads, d_query, rank))
        self.key_weight = nn.Parameter(_uniform(n_heads, rank, d_key))

    def change(self, query: Tensor) -> Tensor:
        """q U W."""
        return query @ self.query_weight @ self.key_weight


class AdditiveScore(Score):
    """Additive: v·tanh(W q + U k), R wide (Bahdanau et al., 2015, appendix A.1.2)."""

    def __init__(
        self, d_query: int, d_key: int, n_heads: int, n_kv_heads: int, rank: int | None
    ) -> None:
        super().__init__()
        R = rank or d_query
        self.query_weight = nn.Parameter(_uniform(n_heads, d_query, R))
        self.key_weight = nn.Parameter(_uniform(n_kv_heads, d_key, R))
        self.vector = nn.Parameter(_uniform(n_heads, R, 1))

    def keys(self, key: Tensor) -> Tensor:
        """U k: (B, G, S, K) -> (B, G, S, R)."""
        return key @ self.key_weight

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, H, T, K), (B, G, S, R) -> (B, H, T, S); holds (B, H, T, S, R) meanwhile."""
        changed = query @ self.query_weight  # (B, H, T, R)
        H, G = query.shape[1], key.shape[1]
        if H != G:
            key = key.repeat_interleave(H // G, dim=1)
        together = torch.tanh(changed[:, :, :, None] + key[:, :, None])  # (B, H, T, S, R)
        return (together @ self.vector[:, None]).squeeze(-1)  # (B, H, T, S)


SCORES: dict[ScoreName, type[DotScore] | type[AdditiveScore]] = {
    "dot": DotScore,
    "scaled_dot": ScaledDotScore,
    "bilinear": BilinearScore,
    "low_rank_bilinear": LowRankBilinearScore,
    "additive": AdditiveScore,
}


def make_score(
    name: ScoreName,
    d_query: int,
    d_key: int,
    *,
    n_heads: int = 1,
    n_kv_heads: int | None = None,
    rank: int | None = None,
) -> Score:
    """The score of that name for heads of these widths; `rank` is R where it has one."""
    return SCORES[name](d_query, d_key, n_heads, n_kv_heads or n_heads, rank)


def _uniform(*shape: int) -> Tensor:
    """Uniform with the variance 1/(3 · inputs), as torch.nn.Linear begins."""
    bound = math.sqrt(1.0 / shape[-2])
    return torch.empty(shape).uniform_(-bound, bound)
