"""Which keys a query may look at: small rules on positions that combine with `&`.

A mask is boolean, True = may look. Rules combine as booleans and become numbers once, in
`Visibility.bias`; so no two large negative numbers are ever added. Positions are absolute: the T
queries are the last T of the S keys, which holds in training (T = S), with a cache (T = 1) and in
chunks alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self

import torch
from torch import Tensor


class Rule(Protocol):
    """Whether queries at positions (T, 1) may look at keys at positions (S,)."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Boolean, of a shape that broadcasts to (B, T, S)."""


@dataclass(frozen=True)
class Causal:
    """No key after the query."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """(T, 1), (S,) -> (T, S)."""
        return key <= query


@dataclass(frozen=True)
class Window:
    """Keys from `left` before the query to `right` after it, the query's own included."""

    left: int
    right: int

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """(T, 1), (S,) -> (T, S)."""
        return (key >= query - self.left) & (key <= query + self.right)


@dataclass(frozen=True, eq=False)
class Padding:
    """Only real keys; `real` (B, S) is True where there is a token."""

    real: Tensor

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """(T, 1), (S,) -> (B, 1, S)."""
        return self.real[:, None, :]


@dataclass(frozen=True, eq=False)
class Documents:
    """Only keys of the query's own document; `numbers` (B, S) names each key's document."""

    numbers: Tensor

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """(T, 1), (S,) -> (B, T, S)."""
        return self.numbers[:, query] == self.numbers[:, None, :]  # (B, T, 1) with (B, 1, S)


@dataclass(frozen=True, eq=False)
class Visibility:
    """A combination of rules; without any, every query sees every key.

    Its masks are made once for each shape and shared by all layers that are given this value.
    """

    rules: tuple[Rule, ...] = ()
    _made: dict[tuple[int, int, str, bool], tuple[Tensor, Tensor]] = field(
        default_factory=dict, repr=False
    )

    def __and__(self, other: Self) -> Visibility:
        return Visibility(self.rules + other.rules)

    @property
    def is_causal_only(self) -> bool:
        """True if causality is the one rule, so that a kernel can do without a mask."""
        return self.rules == (Causal(),)

    def mask(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """(B or 1, 1, T, S) boolean, True = may look; None if everything may."""
        if not self.rules:
            return None
        query = torch.arange(S - T, S, device=device)[:, None]  # (T, 1)
        key = torch.arange(S, device=device)
        allowed = self.rules[0](query, key)
        for rule in self.rules[1:]:
            allowed = allowed & rule(query, key)
        if allowed.dim() == 2:
            allowed = allowed[None]
        return allowed.expand(-1, T, S)[:, None]  # (B or 1, 1, T, S)

    def bias(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """What to add to the scores, and which queries see anything at all.

        (B or 1, 1, T, S) float32, 0 or -inf; and (B or 1, 1, T, 1) float32, 1 or 0. The row of a
        query that may look at nothing has no -inf, so that its softmax and gradients are finite;
        its output is multiplied by the 0. None if everything may be looked at.
        """
        # what is made in inference mode cannot be used in a graph afterwards
        place = (T, S, str(device), torch.is_inference_mode_enabled())
        if place not in self._made:
            allowed = self.mask(T, S, device)
            if allowed is None:
                return None
            alive = allowed.any(dim=-1, keepdim=True)  # (B, 1, T, 1)
            bias = torch.zeros(allowed.shape, device=device)
            bias.masked_fill_(~allowed & alive, float("-inf"))
            self._made[place] = (bias, alive.float())
        return self._made[place]


def full() -> Visibility:
    """Every query sees every key."""
    return Visibility()


def causal() -> Visibility:
    """A query sees itself and what came before."""
    return Visibility((Causal(),))


def window(left: int, right: int) -> Visibility:
    """Keys i - left ≤ j ≤ i + right; a causal window of W keys is (W - 1, 0).

    Raises ValueError for negative widths.
    """
    if left < 0 or right < 0:
        raise ValueError(f"a window reaches 0 or more keys to each side, not ({left}, {right})")
    return Visibility((Window(left, right),))


def padding(real: Tensor) -> Visibility:
    """Only real keys: `real` (B, S) boolean, True = a token.

    Raises TypeError unless `real` is boolean: 0/1 numbers get added to scores by mistake.
    """
    if real.dtype != torch.bool:
        raise TypeError(f"a mask is boolean with True = may look, not {real.dtype}")
    return Visibility((Padding(real),))


def documents(numbers: Tensor) -> Visibility:
    """Only the query's own document: `numbers` (B, S) integer, one number a document."""
    return Visibility((Documents(numbers),))
