"""Which keys a query may look at: small rules on positions that combine with `&`.

A mask is boolean, True = may look. Rules combine as booleans and become numbers once, in
`Visibility.bias`; so no two large negative numbers are ever added. Positions are absolute: the T
queries are the last T of the S keys, which holds in training (T = S), with a cache (T = 1) and in
chunks alike; or they stand where `Visibility.at` says, in texts of unlike lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from headway.nn.rules import Causal, Documents, Padding, Rule, Window, WindowOrFirst

M = TypeVar("M")


@dataclass(frozen=True, eq=False)
class Visibility:
    """A combination of rules; without any, every query sees every key.

    `at` (B, T) are the positions of each row's queries, where these are not the last T keys. Masks
    are made once for each shape and shared by all layers that are given this value.
    """

    rules: tuple[Rule, ...] = ()
    at: Tensor | None = None
    _made: dict[Any, Any] = field(default_factory=dict, repr=False)

    def kept(self, place: tuple[Any, ...], make: Callable[[], M]) -> M:
        """What is made of this value for a shape, once.

        What is made in inference mode cannot be used in a graph afterwards. torch.compile finds for
        itself what is made twice.
        """
        if torch.compiler.is_compiling():
            return make()
        place = (*place, torch.is_inference_mode_enabled())
        if place not in self._made:
            self._made[place] = make()
        made: M = self._made[place]
        return made

    def __and__(self, other: Self) -> Visibility:
        return Visibility(self.rules + other.rules, self.at if other.at is None else other.at)

    @property
    def is_causal_only(self) -> bool:
        """True if causality is the one rule, so that a kernel can do without a mask."""
        return self.rules == (Causal(),) and self.at is None

    @property
    def is_causal(self) -> bool:
        """True if no query sees a key after itself."""
        return Causal() in self.rules

    @property
    def has_documents(self) -> bool:
        """True if rows may hold several texts that do not see each other."""
        return any(isinstance(rule, Documents) for rule in self.rules)

    @property
    def window(self) -> tuple[int, int] | None:
        """How far to the left and to the right a window shows; None without one."""
        return next(((near.left, near.right) for near in self._windows()), None)

    @property
    def dilation(self) -> int:
        """How far apart the keys are that a window shows; 1 without gaps, and if two disagree."""
        found = {near.dilation for near in self._windows()} - {1}
        return found.pop() if len(found) == 1 else 1

    def _windows(self) -> Iterator[Window]:
        for rule in self.rules:
            near = rule.window if isinstance(rule, WindowOrFirst) else rule
            if isinstance(near, Window):
                yield near

    def within(self, width: int, first: int = 0, dilation: int = 1) -> Visibility:
        """Through a window of `width` keys, or half of it to each side, and the `first` of all.

        With a dilation d these are d apart, so that it reaches d times as far.
        """
        left, right = (width - 1, 0) if self.is_causal else (width // 2, width // 2)
        near = Window(left * dilation, right * dilation, dilation)
        return self & Visibility((WindowOrFirst(near, first) if first else near,))

    def without_windows(self) -> Visibility:
        """The same without a bound on how far to look."""
        return Visibility(
            tuple(rule for rule in self.rules if not isinstance(rule, Window | WindowOrFirst))
        )

    def real(self) -> Tensor | None:
        """Which keys are real (B, S), None if all are; ValueError if more counts than that."""
        if not all(isinstance(rule, Padding) for rule in self.rules):
            raise ValueError("mixtures of keys can leave out padding and nothing else")
        found: Tensor | None = None
        for rule in self.rules:
            assert isinstance(rule, Padding)
            found = rule.real if found is None else found & rule.real
        return found

    def mask(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """(B or 1, 1, T, S) boolean, True = may look; None if everything may."""
        if not self.rules:
            return None
        key = torch.arange(S, device=device)[None]  # (1, S)
        if self.at is not None:
            B = len(self.at)
            row = torch.arange(B, device=device)[:, None, None, None]
            return self.sees(row, self.at[:, None, :, None], key).expand(B, 1, T, S)
        query = torch.arange(S - T, S, device=device)[:, None]  # (T, 1)
        return self.between(query, key).expand(-1, T, S)[:, None]  # (B or 1, 1, T, S)

    def between(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether queries at positions (…, T, 1) see keys at positions (…, 1, S).

        Of a shape that broadcasts to (B, …, T, S).
        """
        inner = [1 for _ in query.shape]
        allowed = torch.ones((1, *inner), dtype=torch.bool, device=key.device)
        for rule in self.rules:
            rows = torch.arange(rule.n_rows, device=key.device).view(-1, *inner)
            allowed = allowed & rule(rows, query, key)
        return allowed

    def sees(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Whether one query of a row sees one key: three numbers -> boolean."""
        allowed = torch.ones_like(key, dtype=torch.bool)
        for rule in self.rules:
            allowed = allowed & rule(row if rule.n_rows > 1 else row * 0, query, key)
        return allowed

    def band(self, S: int) -> tuple[int, int]:
        """How far before and after itself a query may see at the most, among S keys."""
        span = self.span(range(S, S + 1), 2 * S + 1)
        return S - span.start, span.stop - S - 1

    def divided(self) -> tuple[Visibility, Visibility]:
        """The rules that go by distance, and the others."""
        near = tuple(rule for rule in self.rules if rule.by_distance)
        return Visibility(near), Visibility(tuple(rule for rule in self.rules if rule not in near))

    def span(self, queries: range, S: int) -> range:
        """Where among S keys all lie that queries at those positions may see."""
        first, last = 0, S
        for rule in self.rules:
            begin, end = rule.span(queries[0], queries[-1])
            first, last = max(first, begin), last if end is None else min(last, end)
        return range(first, max(first, last))

    def sees_all(self, queries: range, keys: range) -> bool:
        """True if each of those queries is known to see each of those keys."""
        return all(rule.sees_all(queries, keys) for rule in self.rules)

    def bias(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """What to add to the scores, and which queries see anything at all.

        (B or 1, 1, T, S) float32, 0 or -inf; and (B or 1, 1, T, 1) float32, 1 or 0. The row of a
        query that may look at nothing has no -inf, so that its softmax and gradients are finite;
        its output is multiplied by the 0. None if everything may be looked at.
        """
        if T == 1 and self.is_causal_only:
            return None  # the last comes after all
        place = ("bias", T, S, str(device))
        return self.kept(place, lambda: self._bias(T, S, device)) if self.rules else None

    def _bias(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
        allowed = self.mask(T, S, device)
        assert allowed is not None, "there are rules"
        alive = allowed.any(dim=-1, keepdim=True)  # (B, 1, T, 1)
        bias = torch.zeros(allowed.shape, device=device)
        bias.masked_fill_(~allowed & alive, float("-inf"))
        return bias, alive.float()


def full() -> Visibility:
    """Every query sees every key."""
    return Visibility()


def causal(at: Tensor | None = None) -> Visibility:
    """A query sees itself and what came before; each row's may stand `at` (B, T)."""
    return Visibility((Causal(),), at)


def window(left: int, right: int, dilation: int = 1) -> Visibility:
    """Keys i - left ≤ j ≤ i + right; a causal window of W keys is (W - 1, 0).

    With a `dilation` d only every d-th of them. Raises ValueError for negative widths, and for a
    dilation below 1.
    """
    if left < 0 or right < 0:
        raise ValueError(f"a window reaches 0 or more keys to each side, not ({left}, {right})")
    if dilation < 1:
        raise ValueError(f"keys of a window are 1 or more apart, not {dilation}")
    return Visibility((Window(left, right, dilation),))


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
