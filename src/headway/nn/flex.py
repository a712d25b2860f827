"""Attention by torch's flex_attention: any visibility as a mask of blocks, in one kernel for GPUs.

Blocks of which nothing is seen are passed over, and the weights are never held (Dong et al., 2024,
arXiv 2412.05496). On a CPU it is computed plainly, all weights at once, and forward alone.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from headway.nn.visibility import Visibility

BLOCK = 128  # places of a block: lengths between its multiples gave NaN gradients, pytorch#153799


def flex(query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
    """The visible values' mean weighted by softmax(q·k).

    `query` (B, H, T, K), `key` (B, G, S, K), `value` (B, G, S, V) -> (B, H, T, V). A query that may
    look at nothing gives 0. The T queries are the last of the S. Raises ValueError where a CPU
    would have to learn.
    """
    on_cpu = query.device.type == "cpu"
    if on_cpu and torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)):
        raise ValueError("'flex' does not learn on a CPU; use 'blockwise'")
    T, S = query.shape[2], key.shape[2]
    blocks = visibility.kept(
        ("blocks", T, S, str(key.device)), lambda: _blocks(visibility, T, S, key.device)
    )
    query, key, value = (_whole_blocks(part) for part in (query, key, value))
    run = _kernel(on_cpu)
    attended: Tensor = run(
        query,
        key,
        value,
        block_mask=blocks,
        scale=1.0,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return attended[:, :, :T]


@functools.cache
def _kernel(plain: bool) -> Any:
    return _plainly if plain else torch.compile(flex_attention)


def _plainly(*args: Any, **keys: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it is not compiled
        return flex_attention(*args, **keys)


def _blocks(visibility: Visibility, T: int, S: int, device: torch.device) -> BlockMask:
    """Which blocks of queries meet which blocks of keys; what fills up the last ones sees all."""
    rows = max((rule.n_rows for rule in visibility.rules), default=1)

    def seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        place = (query + (S - T)).clamp_max(S - 1)
        return visibility.sees(row, place, key.clamp_max(S - 1)) & (key < S)

    queries, keys = (-(-n // BLOCK) * BLOCK for n in (T, S))
    return create_block_mask(seen, rows, None, queries, keys, device=device, BLOCK_SIZE=BLOCK)


def _whole_blocks(part: Tensor) -> Tensor:
    """(B, ·, T, K) with T up to a multiple of a block."""
    return F.pad(part, (0, 0, 0, -part.shape[2] % BLOCK))
