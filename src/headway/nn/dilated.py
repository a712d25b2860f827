"""A window with gaps as windows without: every d-th token is a text of its own.

In a window whose keys are d apart (Longformer: Beltagy et al., 2020, section 3.1) a token sees none
of another remainder by d, but for the first ones that all see. So the tokens of each remainder are
put behind these, and a band meets no more keys than the same window without gaps does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.dropout import Drop
from headway.nn.rules import Documents, Padding, Rule, Window, WindowOrFirst
from headway.nn.visibility import Visibility


@dataclass(frozen=True)
class Remainders:
    """B texts of S tokens as B·d texts of `first` + n tokens: the first ones, then every d-th."""

    d: int
    first: int
    S: int

    @classmethod
    def of(cls, visibility: Visibility, S: int) -> Remainders:
        """Those of a visibility's window."""
        wide = (rule.first for rule in visibility.rules if isinstance(rule, WindowOrFirst))
        return cls(visibility.dilation, min(S, next(wide, 0)), S)

    @staticmethod
    def hold(visibility: Visibility) -> bool:
        """Whether its rules hold among remainders: behind first tokens distances are others."""
        kinds = {type(rule) for rule in visibility.rules}
        return not {Window, WindowOrFirst} <= kinds

    @property
    def n(self) -> int:
        """Tokens of a remainder, with what fills up the shorter ones."""
        return -(-(self.S - self.first) // self.d)

    def split(self, rows: Tensor) -> Tensor:
        """(B, …, S, ·) -> (B·d, …, first + n, ·)."""
        B, *heads, _, K = rows.shape
        first = rows[..., : self.first, :].unsqueeze(1)
        filled = F.pad(rows[..., self.first :, :], (0, 0, 0, self.n * self.d - self.S + self.first))
        rest = filled.view(B, *heads, self.n, self.d, K).movedim(-2, 1)
        whole = torch.cat((first.expand(-1, self.d, *first.shape[2:]), rest), dim=-2)
        return whole.reshape(B * self.d, *heads, self.first + self.n, K)

    def joined(self, parts: Tensor) -> Tensor:
        """(B·d, H, first + n, K) -> (B, H, S - first, K): all but the first ones."""
        H, _, K = parts.shape[1:]
        rest = parts[:, :, self.first :].view(-1, self.d, H, self.n, K)
        return rest.movedim(1, 3).reshape(-1, H, self.n * self.d, K)[:, :, : self.S - self.first]

    def visibility(self, whole: Visibility, B: int, device: torch.device) -> Visibility:
        """What is to be seen among the tokens of a remainder."""
        rules = [self._rule(rule, B) for rule in whole.rules]
        if self.n * self.d > self.S - self.first:
            there = torch.ones(B, self.S, dtype=torch.bool, device=device)
            rules.append(Padding(self._places(there)))
        return Visibility(tuple(rules))

    def _rule(self, rule: Rule, B: int) -> Rule:
        if isinstance(rule, Window):
            return Window(rule.left // self.d, rule.right // self.d)
        if isinstance(rule, WindowOrFirst):
            near = rule.window
            return WindowOrFirst(Window(near.left // self.d, near.right // self.d), self.first)
        if isinstance(rule, Padding):
            return Padding(self._places(rule.real.expand(B, -1)))
        if isinstance(rule, Documents):
            return Documents(self._places(rule.numbers.expand(B, -1)))
        return rule  # what comes after comes after here too

    def _places(self, rows: Tensor) -> Tensor:
        return self.split(rows.unsqueeze(-1)).squeeze(-1)


def first_rows(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, drop: Drop | None
) -> Tensor:
    """The same for the first queries (B, H, first, K) and keys (B, G, S, ·): few against all."""
    B, H, first, _ = query.shape
    G, S = key.shape[1:3]
    at = torch.arange(first, device=query.device).expand(B, -1)
    bias = Visibility(visibility.rules, at).bias(first, S, query.device)
    assert bias is not None, "there is a window"
    key, value = (each.repeat_interleave(H // G, dim=1) for each in (key, value))
    weights = ((query @ key.mT).float() + bias[0]).softmax(dim=-1) * bias[1]
    weights = weights if drop is None else weights * drop.mask(weights)
    return weights.to(value.dtype) @ value
