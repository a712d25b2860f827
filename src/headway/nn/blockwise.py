"""FlashAttention in plain torch: the (T, S) weights exist a tile at a time.

Dao et al., 2022 (arXiv 2205.14135), algorithm 1 with the order of loops of Dao, 2023 (arXiv
2307.08691): for a tile of queries the softmax is taken over one tile of keys after the other, the
sum so far corrected each time by how much the maximum has risen. What is kept for the backward
pass is the logarithm of the sum, from which each tile of the weights is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headway.nn.visibility import Visibility
from headway.settings.reaching import SIDE


def blockwise(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, *, side: int = SIDE
) -> Tensor:
    """The visible values' mean weighted by softmax(q·k).

    `query` (B, H, T, K), `key` (B, G, S, K), `value` (B, G, S, V) -> (B, H, T, V). A query that may
    look at nothing gives 0. The T queries are the last of the S.
    """
    B, H, T, K = query.shape
    G = key.shape[1]
    attended: Tensor = _Blockwise.apply(  # type: ignore[no-untyped-call]
        query.reshape(B, G, H // G, T, K), key, value, visibility, side
    )
    return attended.reshape(B, H, T, -1)


class _Tiles:
    """The tiles of a (T, S) matrix of weights that have something to see."""

    def __init__(self, query: Tensor, key: Tensor, visibility: Visibility, side: int) -> None:
        self.T, self.S, self.visibility, self.side = query.shape[3], key.shape[2], visibility, side
        self.before = self.S - self.T  # keys before the first query
        self.places = torch.arange(self.S, device=key.device)

    def rows(self) -> Iterator[slice]:
        """Tiles of queries."""
        return (slice(n, min(n + self.side, self.T)) for n in range(0, self.T, self.side))

    def columns(self, rows: slice) -> Iterator[tuple[slice, Tensor | None]]:
        """Tiles of keys that these queries see, and what is hidden there (B or 1, 1, 1, t, s)."""
        queries = range(rows.start + self.before, rows.stop + self.before)
        span = self.visibility.span(queries, self.S)
        for begin in range(span.start, span.stop, self.side):
            keys = range(begin, min(begin + self.side, span.stop))
            columns = slice(keys.start, keys.stop)
            if self.visibility.sees_all(queries, keys):
                yield columns, None
                continue
            query = self.places[queries.start : queries.stop, None]
            hidden = ~self.visibility.between(query, self.places[None, columns])
            if hidden.device.type == "cpu" and bool(hidden.all()):  # elsewhere asking costs more
                continue
            yield columns, hidden[:, None, None]


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, side: int
    ) -> Tensor:
        """`query` (B, G, R, T, K): R heads share their keys."""
        tiles = _Tiles(query, key, visibility, side)
        attended = query.new_zeros(*query.shape[:-1], value.shape[-1])
        log_sum = query.new_zeros(query.shape[:-1], dtype=torch.float32)
        for rows in tiles.rows():
            attended[..., rows, :], log_sum[..., rows] = _row(query, key, value, tiles, rows)
        ctx.save_for_backward(query, key, value, attended, log_sum)
        ctx.tiles = tiles
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, attended, log_sum = ctx.saved_tensors
        tiles: _Tiles = ctx.tiles
        to_query, to_key, to_value = (
            torch.zeros(each.shape, device=each.device) for each in (query, key, value)
        )
        # what the softmax takes from each weight's slope: D of algorithm 4
        taken = (slope.float() * attended.float()).sum(dim=-1)  # (B, G, R, T)
        slope = slope.to(value.dtype)
        # of a query that saw nothing each weight is exp(-inf - inf) = 0
        log_sum = log_sum.masked_fill(log_sum == -torch.inf, torch.inf)
        for rows in tiles.rows():
            q, dy = (_merged(each[..., rows, :]) for each in (query, slope))
            to_q = to_query[..., rows, :]
            shape = to_q.shape[:-1]
            for columns, hidden in tiles.columns(rows):
                k, v = key[:, :, columns], value[:, :, columns]
                weights = _scores(q, k, hidden, shape).sub_(log_sum[..., rows, None]).exp_()
                w = _merged(weights).to(value.dtype)
                to_value[:, :, columns] += w.mT @ dy
                slopes = (dy @ v.mT).float().view(weights.shape).sub_(taken[..., rows, None])
                d = _merged(slopes.mul_(weights)).to(query.dtype)
                to_q += (d @ k).view(to_q.shape)
                to_key[:, :, columns] += d.mT @ q
        return to_query.to(query.dtype), to_key.to(key.dtype), to_value.to(value.dtype), None, None


def _row(
    query: Tensor, key: Tensor, value: Tensor, tiles: _Tiles, rows: slice
) -> tuple[Tensor, Tensor]:
    """Attention of a tile of queries, over one tile of keys after the other."""
    q = query[..., rows, :]
    shape = q.shape[:-1]
    q = _merged(q)
    greatest = q.new_full((*shape, 1), -torch.inf, dtype=torch.float32)
    total, mean = torch.zeros_like(greatest), torch.zeros((), device=q.device)
    for columns, hidden in tiles.columns(rows):
        scores = _scores(q, key[:, :, columns], hidden, shape)
        greater = torch.maximum(greatest, scores.amax(dim=-1, keepdim=True))
        base = greater.masked_fill(greater == -torch.inf, 0.0)  # so that -inf - base is -inf
        weights = scores.sub_(base).exp_()
        shrink = (greatest - base).exp_()
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        part = (_merged(weights).to(value.dtype) @ value[:, :, columns]).float()
        mean = mean * shrink + part.view(*shape, -1)
        greatest = greater
    attended = mean / total.masked_fill(total == 0, 1.0)
    return attended.to(value.dtype), (greatest + total.log())[..., 0]


def _scores(q: Tensor, k: Tensor, hidden: Tensor | None, shape: torch.Size) -> Tensor:
    """(B, G, R·t, K), (B, G, s, K) -> (B, G, R, t, s) float32, -inf where `hidden`."""
    scores = (q @ k.mT).float().view(*shape, -1)
    return scores if hidden is None else scores.masked_fill_(hidden, -torch.inf)


def _merged(rows: Tensor) -> Tensor:
    """(B, G, R, t, ·) -> (B, G, R·t, ·): the heads of a group, one below the other."""
    return rows.flatten(2, 3)
