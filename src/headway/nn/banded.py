"""Attention in a band: a window around each query, in time and memory linear in the length.

Chunks of queries meet the keys that lie within reach of any of them, all chunks in one product, as
in Longformer (Beltagy et al., 2020, section 3.1 and appendix A). As in FlashAttention the weights
are made again for the gradients, so that only a slab of chunks has them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headway.nn.visibility import From, Visibility, WindowOrFirst

LEAST = 64  # queries of a chunk: smaller products do not pay
SLAB = 2**21  # weights that there are at a time


def banded(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility
) -> tuple[Tensor, Tensor]:
    """The visible values' mean weighted by softmax(q·k), and the log of the softmax's sum.

    `query` (B, H, T, K), `key` (B, G, S, K), `value` (B, G, S, V) -> (B, H, T, V), (B, H, T)
    float32. A query that may look at nothing gives 0 and -inf. The T queries are the last of the S.
    """
    wide = next((each for each in visibility.rules if isinstance(each, WindowOrFirst)), None)
    if wide is None:
        return _in_band(query, key, value, visibility)
    others = Visibility(tuple(rule for rule in visibility.rules if rule is not wide))
    near = others & Visibility((wide.window, From(wide.first)))
    return _merged(
        _in_band(query, key, value, near), _of_first(query, key, value, others, wide.first)
    )


def _of_first(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, first: int
) -> tuple[Tensor, Tensor]:
    """Attention to the first keys alone, which are few."""
    B, H, T, K = query.shape
    G, S = key.shape[1:3]
    rows = query.reshape(B, G, H // G * T, K)
    scores = (rows @ key[:, :, :first].mT).float().view(B, G, -1, T, min(first, S))
    place = torch.arange(S, device=query.device)
    seen = visibility.between(place[S - T :, None], place[None, :first])[:, None, None]
    alive = seen.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~seen & alive, -torch.inf)
    log_sum = scores.logsumexp(dim=-1, keepdim=True)
    weights = (scores - log_sum).exp() * alive
    attended = weights.flatten(2, 3).to(value.dtype) @ value[:, :, :first]
    log_sum = log_sum.masked_fill(~alive, -torch.inf)
    return attended.view(B, H, T, -1), log_sum.view(B, H, T)


def _merged(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention to two sets of keys as one, by the logs of their sums."""
    log_sum = torch.logaddexp(one[1], other[1])
    base = log_sum.masked_fill(log_sum == -torch.inf, 0.0)
    mean, other_mean = (part[0] * (part[1] - base).exp()[..., None] for part in (one, other))
    return (mean + other_mean).to(one[0].dtype), log_sum


def _in_band(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility
) -> tuple[Tensor, Tensor]:
    B, H, T, K = query.shape
    G, S = key.shape[1:3]
    bands = _Bands.of(visibility, T, S)
    grouped = query.reshape(B, G, H // G, T, K)
    attended, log_sum = _Banded.apply(grouped, key, value, bands)  # type: ignore[no-untyped-call]
    return attended.reshape(B, H, T, -1), log_sum.reshape(B, H, T)


@dataclass(frozen=True)
class _Bands:
    """T queries in chunks of C; each chunk meets `left` keys before it, its own C, `right` after.

    `left` and `right` are multiples of C.
    """

    visibility: Visibility
    T: int
    S: int
    C: int
    left: int
    right: int

    @classmethod
    def of(cls, visibility: Visibility, T: int, S: int) -> _Bands:
        left, right = visibility.band(S)
        C = max(LEAST, -(-(left + right) // (2 * LEAST)) * LEAST)
        return cls(visibility, T, S, C, -(-left // C) * C, -(-right // C) * C)

    @property
    def width(self) -> int:
        """Keys that a chunk meets."""
        return self.left + self.C + self.right

    @property
    def chunks(self) -> int:
        return -(-self.T // self.C)

    def slabs(self, size: int, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
        """Chunks whose weights are made at a time, and what is hidden (B or 1, m or 1, C, width).

        `size` is how many rows of weights a query has: B·H.
        """
        near, others = self.visibility.divided()
        place, offset = (torch.arange(n, device=device) for n in (self.width, self.C))
        seen = near.between(offset[:, None] + self.left, place[None])[:, None]  # (1, 1, C, width)
        m = max(1, SLAB // (size * self.C * self.width))
        first = self.S - self.T - self.left  # the position of the first key of the first chunk
        for begin in range(0, self.chunks, m):
            slab = slice(begin, min(begin + m, self.chunks))
            start = first + torch.arange(slab.start, slab.stop, device=device) * self.C
            keys = start[:, None, None] + place  # (m, 1, width)
            allowed = seen
            if first + slab.start * self.C < 0 or int(start[-1]) + self.width > self.S:
                allowed = allowed & ((keys >= 0) & (keys < self.S))
            if others.rules:
                queries = start[:, None, None] + self.left + offset[:, None]  # (m, C, 1)
                last = self.S - 1
                allowed = allowed & others.between(queries.clamp_max(last), keys.clamp(0, last))
            yield slab, ~allowed

    def padded(self, keys: Tensor) -> Tensor:
        """(B, G, S, ·) from the first key that the first chunk meets to the last of the last."""
        before = self.S - self.T - self.left
        return F.pad(
            keys, (0, 0, -before, before + self.chunks * self.C + self.width - self.C - self.S)
        )

    def met(self, padded: Tensor, slab: slice) -> Tensor:
        """(B, G, ·, K) -> (B, G, m, width, K): the keys of each chunk."""
        begin, end = slab.start * self.C, (slab.stop - 1) * self.C + self.width
        return padded[:, :, begin:end].unfold(2, self.width, self.C).mT

    def cut(self, rows: Tensor) -> Tensor:
        """(B, G, R, T, K) -> (B, G, M, R·C, K): the chunks of queries, zeros after the last."""
        B, G, R, T, K = rows.shape
        whole = F.pad(rows, (0, 0, 0, self.chunks * self.C - T)).view(B, G, R, -1, self.C, K)
        return whole.transpose(2, 3).reshape(B, G, -1, R * self.C, K)

    def joined(self, chunks: Tensor, R: int) -> Tensor:
        """(B, G, M, R·C, K) -> (B, G, R, T, K)."""
        B, G, M, _, K = chunks.shape
        whole = chunks.view(B, G, M, R, self.C, K).transpose(2, 3)
        return whole.reshape(B, G, R, M * self.C, K)[:, :, :, : self.T]

    def add(self, padded: Tensor, slab: slice, parts: Tensor) -> None:
        """Add what belongs to the keys of each chunk, (B, G, m, width, K), where they stand."""
        B, G, m, _, K = parts.shape
        for place in range(0, self.width, self.C):
            begin = slab.start * self.C + place
            part = parts[:, :, :, place : place + self.C].reshape(B, G, m * self.C, K)
            padded[:, :, begin : begin + m * self.C] += part


class _Banded(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bands: _Bands
    ) -> tuple[Tensor, Tensor]:
        """`query` (B, G, R, T, K): R heads share their keys."""
        B, G, R = query.shape[:3]
        q, k, v = bands.cut(query), bands.padded(key), bands.padded(value)
        attended = q.new_zeros(*q.shape[:-1], v.shape[-1])
        log_sum = q.new_zeros(*q.shape[:-1], 1, dtype=torch.float32)
        for slab, hidden in bands.slabs(B * G * R, q.device):
            scores = _scores(q[:, :, slab], bands.met(k, slab), hidden, R)
            greatest = scores.amax(dim=-1, keepdim=True)
            base = greatest.masked_fill(greatest == -torch.inf, 0.0)
            weights = scores.sub_(base).exp_()
            total = weights.sum(dim=-1, keepdim=True)
            weighed = weights.to(v.dtype) @ bands.met(v, slab)
            attended[:, :, slab] = weighed / total.masked_fill(total == 0, 1.0)
            log_sum[:, :, slab] = base + total.log()
        result = bands.joined(attended, R)
        ctx.save_for_backward(query, key, value, result, log_sum)
        ctx.bands = bands
        return result, bands.joined(log_sum, R)[..., 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, slope_of_sum: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, result, log_sum = ctx.saved_tensors
        bands: _Bands = ctx.bands
        B, G, R = query.shape[:3]
        q, k, v = bands.cut(query), bands.padded(key), bands.padded(value)
        dy = bands.cut(slope.to(value.dtype))
        taken = (slope.float() * result.float()).sum(dim=-1) - slope_of_sum
        taken = bands.cut(taken[..., None])
        log_sum = log_sum.masked_fill(log_sum == -torch.inf, torch.inf)
        to_query, to_key, to_value = (torch.zeros_like(x, dtype=torch.float32) for x in (q, k, v))
        for slab, hidden in bands.slabs(B * G * R, q.device):
            keys, rows = bands.met(k, slab), q[:, :, slab]
            weights = _scores(rows, keys, hidden, R).sub_(log_sum[:, :, slab]).exp_()
            bands.add(to_value, slab, weights.to(v.dtype).mT @ dy[:, :, slab])
            slopes = (dy[:, :, slab] @ bands.met(v, slab).mT).float()
            d = slopes.sub_(taken[:, :, slab]).mul_(weights).to(q.dtype)
            to_query[:, :, slab] = d @ keys
            bands.add(to_key, slab, d.mT @ rows)
        begin = bands.left - (bands.S - bands.T)
        kept = slice(max(0, begin), None)
        grads = [bands.joined(to_query, R)]
        for found in (to_key, to_value):
            own = F.pad(found[:, :, kept], (0, 0, max(0, -begin), 0))
            grads.append(F.pad(own, (0, 0, 0, bands.S - own.shape[2])))
        return (grads[0].to(query.dtype), grads[1].to(key.dtype), grads[2].to(value.dtype), None)


def _scores(q: Tensor, k: Tensor, hidden: Tensor, R: int) -> Tensor:
    """(B, G, m, R·C, K), (B, G, m, width, K) -> (B, G, m, R·C, width) float32, -inf if hidden."""
    scores = (q @ k.mT).float()
    B, G, m, rows, width = scores.shape
    apart = scores.view(B, G, m, R, rows // R, width)
    apart.masked_fill_(hidden[:, None, :, None], -torch.inf)
    return scores
