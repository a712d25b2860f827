"""Attention in a band: a window around each query, in time and memory linear in the length.

Chunks of queries meet the keys that lie within reach of any of them, and those that all see, as in
Longformer (Beltagy et al., 2020, section 3.1 and appendix A). As in FlashAttention the weights are
made again for the gradients, so that only a slab of chunks has them at a time: as many as stay in
a processor's cache; what drops some of them is a function of the slab, and is made again too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from headway.nn.dilated import Remainders, first_rows
from headway.nn.dropout import Drop
from headway.nn.rules import WindowOrFirst
from headway.nn.visibility import Visibility

LEAST = 64  # queries of a chunk: smaller products do not pay
LINE = 16  # numbers
SLAB = 2**18  # weights that there are at a time


def banded(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, drop: Drop | None = None
) -> Tensor:
    """The visible values' mean weighted by softmax(q·k), of which `drop` drops some.

    `query` (B, H, T, K), `key` (B, G, S, K), `value` (B, G, S, V) -> (B, H, T, V). A query that may
    look at nothing gives 0. The T queries are the last of the S. A window with gaps costs as much
    as one without where T = S.
    """
    B, H, T, K = query.shape
    G, S = key.shape[1:3]
    if T == S and visibility.dilation > 1 and Remainders.hold(visibility):
        return _dilated(query, key, value, visibility, drop)
    bands = _Bands.of(visibility, T, S)
    grouped = query.reshape(B, G, H // G, T, K)
    attended: Tensor = _Banded.apply(  # type: ignore[no-untyped-call]
        grouped, key, value, bands, drop
    )
    return attended.reshape(B, H, T, -1)


def _dilated(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, drop: Drop | None
) -> Tensor:
    B, _, S, _ = query.shape
    parts = Remainders.of(visibility, S)
    first = query[:, :, : parts.first]
    found = [first_rows(first, key, value, visibility, drop)] if parts.first else []
    if parts.n:
        q, k, v = (parts.split(each) for each in (query, key, value))
        seen = parts.visibility(visibility, B, query.device)
        found.append(parts.joined(banded(q, k, v, seen, drop)))
    return torch.cat(found, dim=2)


class _Slab(NamedTuple):
    """Chunks whose weights are made at a time.

    Each of `hides`, (B or 1, 1, m or 1, 1, C or 1, slots + width), is -inf where something is not
    to be seen, else 0. `dead`, 1 in place of the last of these, are queries that may see nothing.
    """

    chunks: slice
    hides: tuple[Tensor, ...]
    dead: Tensor | None


class _Sums(NamedTuple):
    """What adds up for the keys of the band, as `padded` has them, and for the first ones."""

    band: Tensor
    every: Tensor

    @classmethod
    def of(cls, padded: Tensor, slots: int) -> _Sums:
        """Nothing yet."""
        B, G, _, K = padded.shape
        device = padded.device
        return cls(
            torch.zeros(padded.shape, device=device), torch.zeros(B, G, slots, K, device=device)
        )


@dataclass(frozen=True)
class _Bands:
    """T queries in chunks of C; each chunk meets `left` keys before it, its own C, `right` after.

    `left` and `right` are multiples of C. The `first` keys are met by all chunks beside.
    """

    near: Visibility  # rules that go by distance: of the band
    others: Visibility  # the rest; all, where there are first keys: for these all must be asked
    first: int
    slots: int  # the first keys, and some after them to fill up a line of the cache
    T: int
    S: int
    C: int
    left: int
    right: int

    @classmethod
    def of(cls, visibility: Visibility, T: int, S: int) -> _Bands:
        near, others = visibility.divided()
        wide = next((each for each in others.rules if isinstance(each, WindowOrFirst)), None)
        first = 0
        if wide is not None:
            first, near = min(wide.first, S), near & Visibility((wide.window,))
            others = Visibility(tuple(rule for rule in visibility.rules if rule is not wide))
        left, right = near.band(S)
        C = max(LEAST, -(-(left + right) // (4 * LEAST)) * LEAST)
        slots = min(S, -(-first // LINE) * LINE)
        return cls(near, others, first, slots, T, S, C, -(-left // C) * C, -(-right // C) * C)

    @property
    def width(self) -> int:
        """Keys of the band that a chunk meets."""
        return self.left + self.C + self.right

    @property
    def n_chunks(self) -> int:
        """How many chunks the queries make."""
        return -(-self.T // self.C)

    @property
    def begin(self) -> int:
        """The position of the first key that the first chunk meets; before 0 there is none."""
        return self.S - self.T - self.left

    def slabs(self, rows: int, device: torch.device) -> Iterator[_Slab]:
        """All chunks; a query has `rows` = B·H rows of weights."""
        place, offset = (torch.arange(n, device=device) for n in (self.width, self.C))
        apart = self.near.between(offset[:, None] + self.left, place[None])[:, None]  # (1, 1, C, w)
        apart = F.pad(apart, (self.slots, 0), value=True)
        near = _hide(apart)
        m = max(1, SLAB // (rows * self.C * (self.slots + self.width)))
        for begin in range(0, self.n_chunks, m):
            chunks = slice(begin, min(begin + m, self.n_chunks))
            first = self.begin + chunks.start * self.C
            last = self.begin + (chunks.stop - 1) * self.C + self.width
            if first >= 0 and last <= self.S and not self.others.rules and not self.first:
                yield _Slab(chunks, (near,), None)
                continue
            start = torch.arange(first, last - self.width + 1, self.C, device=device)[:, None, None]
            far = _hide(self._seen(start, place, offset))
            yield _Slab(chunks, (near, far), (near + far).amax(-1, keepdim=True) == -torch.inf)

    def _seen(self, start: Tensor, place: Tensor, offset: Tensor) -> Tensor:
        """What is there, and seen by rules that do not go by distance: (B or 1, m, C or 1, w)."""
        first = torch.arange(self.slots, device=start.device).expand(len(start), 1, -1)
        band, last = start + place, self.S - 1  # (m, 1, width)
        queries = (start + self.left + offset[:, None]).clamp_max(last)  # (m, C, 1)
        keys = torch.cat((first, band.clamp(0, last)), dim=-1)
        there = torch.cat((first < self.first, (band >= self.first) & (band <= last)), dim=-1)
        return there & self.others.between(queries, keys)

    def padded(self, keys: Tensor) -> Tensor:
        """(B, G, S, ·) from the first key that the first chunk meets to the last of the last."""
        end = self.begin + (self.n_chunks - 1) * self.C + self.width
        return F.pad(keys, (0, 0, -self.begin, end - self.S))

    def met(self, padded: Tensor, keys: Tensor, chunks: slice) -> Tensor:
        """(B, G, ·, K), (B, G, S, K) -> (B, G, m, slots + width, K): what each chunk meets."""
        begin, end = chunks.start * self.C, (chunks.stop - 1) * self.C + self.width
        band = padded[:, :, begin:end].unfold(2, self.width, self.C).mT
        if not self.first:
            return band
        every = keys[:, :, None, : self.slots].expand(-1, -1, band.shape[2], -1, -1)
        return torch.cat((every, band), dim=3)

    def cut(self, rows: Tensor) -> Tensor:
        """(B, G, R, T, K) -> (B, G, M, R·C, K): the chunks of queries, zeros after the last."""
        B, G, R, T, K = rows.shape
        whole = F.pad(rows, (0, 0, 0, self.n_chunks * self.C - T)).view(B, G, R, -1, self.C, K)
        return whole.transpose(2, 3).reshape(B, G, -1, R * self.C, K)

    def joined(self, chunks: Tensor, R: int) -> Tensor:
        """(B, G, M, R·C, K) -> (B, G, R, T, K)."""
        B, G, M, _, K = chunks.shape
        whole = chunks.view(B, G, M, R, self.C, K).transpose(2, 3)
        return whole.reshape(B, G, R, M * self.C, K)[:, :, :, : self.T]

    def add(self, sums: _Sums, chunks: slice, parts: Tensor) -> None:
        """Add what belongs to the keys of each chunk, (B, G, m, slots + width, K), to theirs."""
        B, G, m, _, K = parts.shape
        sums.every.add_(parts[:, :, :, : self.slots].sum(dim=2))
        for place in range(0, self.width, self.C):
            begin = chunks.start * self.C + place
            part = parts[:, :, :, self.slots + place : self.slots + place + self.C]
            sums.band[:, :, begin : begin + m * self.C] += part.reshape(B, G, m * self.C, K)

    def gathered(self, sums: _Sums) -> Tensor:
        """The sums of `add` for the S keys."""
        own = F.pad(sums.band[:, :, max(0, -self.begin) :], (0, 0, max(0, self.begin), 0))
        own = F.pad(own, (0, 0, 0, self.S - own.shape[2]))
        own[:, :, : self.slots] += sums.every
        return own


class _Banded(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bands: _Bands, drop: Drop | None
    ) -> Tensor:
        """`query` (B, G, R, T, K): R heads share their keys."""
        B, G, R = query.shape[:3]
        q, k, v = bands.cut(query), bands.padded(key), bands.padded(value)
        attended = q.new_empty(*q.shape[:-1], v.shape[-1])
        for slab in bands.slabs(B * G * R, q.device):
            part = slab.chunks
            weights = _weights(q[:, :, part], bands.met(k, key, part), slab, R)
            if drop is not None:
                weights *= drop.mask(weights, part.start)
            attended[:, :, part] = weights.to(v.dtype) @ bands.met(v, value, part)
        ctx.save_for_backward(query, key, value)
        ctx.bands, ctx.drop = bands, drop
        return bands.joined(attended, R)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value = ctx.saved_tensors
        bands: _Bands = ctx.bands
        B, G, R = query.shape[:3]
        q, k, v = bands.cut(query), bands.padded(key), bands.padded(value)
        dy, to_query = bands.cut(slope.to(value.dtype)), torch.empty_like(q)
        of_keys, of_values = _Sums.of(k, bands.slots), _Sums.of(v, bands.slots)
        for slab in bands.slabs(B * G * R, q.device):
            part = slab.chunks
            keys, rows, slopes = bands.met(k, key, part), q[:, :, part], dy[:, :, part]
            weights = weighing = _weights(rows, keys, slab, R)
            met = (slopes @ bands.met(v, value, part).mT).float()
            if ctx.drop is not None:
                kept = ctx.drop.mask(weights, part.start)
                met *= kept
                weighing = kept.mul_(weights)
            bands.add(of_values, part, weighing.to(v.dtype).mT @ slopes)
            d = torch._softmax_backward_data(met, weights, -1, torch.float32).to(q.dtype)
            to_query[:, :, part] = d @ keys
            bands.add(of_keys, part, d.mT @ rows)
        to_key, to_value = (bands.gathered(each) for each in (of_keys, of_values))
        to_query = bands.joined(to_query, R)
        return to_query, to_key.to(key.dtype), to_value.to(value.dtype), None, None


def _weights(q: Tensor, k: Tensor, slab: _Slab, R: int) -> Tensor:
    """(B, G, m, R·C, K), (B, G, m, w, K) -> (B, G, m, R·C, w) float32; dead rows are 0."""
    scores = (q @ k.mT).float()
    B, G, m, rows, w = scores.shape
    for hide in slab.hides:
        scores.view(B, G, m, R, rows // R, w).add_(hide)
    weights = scores.softmax(dim=-1)
    if slab.dead is not None:  # a softmax of nothing is no number; others that are none stay so
        weights.view(B, G, m, R, rows // R, w).masked_fill_(slab.dead, 0.0)
    return weights


def _hide(seen: Tensor) -> Tensor:
    """(B or 1, m or 1, C or 1, w) boolean -> (B or 1, 1, m or 1, 1, C or 1, w)."""
    hide = torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, -torch.inf)
    return hide[:, None, :, None]
