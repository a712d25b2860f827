"""Attention as a pure function, with more than one way to compute it.

`reference` is the one to read and has the weights; `fused` is torch's kernel and `blockwise` the
same algorithm in plain torch, which never hold the (T, S) weights; `banded` is for windows, in time
and memory linear in the length. `auto` picks by what was measured: on a CPU the fused kernel's
backward pass costs several times the plain products at translation lengths and pays only where the
weights are large; in long rows of several documents a block that skips what they do not share is
faster still. Of one query behind its keys it meets those in the window alone. What an
implementation cannot do it refuses, naming one that can; no argument is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.banded import banded
from headway.nn.blockwise import blockwise
from headway.nn.dropout import Drop
from headway.nn.flex import flex
from headway.nn.scores import DotScore, Score
from headway.nn.visibility import Visibility, full
from headway.settings.reaching import CPU_CROSSING_DOCUMENTS

Implementation = Literal["auto", "reference", "fused", "blockwise", "banded", "flex"]

# Weights a head, T·S, from which torch's fused kernel is faster on a CPU: benchmarks/attention.py,
# benchmarks/results/attention.json
CPU_CROSSING_TRAINING = {torch.float32: 256 * 256, torch.bfloat16: 1024 * 1024}
CPU_CROSSING_INFERENCE = {torch.float32: 128 * 128, torch.bfloat16: 192 * 192}
BAND_CROSSING = 4  # times the reach of a window that the keys are, from which a band is faster


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score,
    visibility: Visibility,
    on_weights: Callable[[Tensor], Tensor] | None = None,
    drop: Drop | None = None,
    implementation: Implementation = "auto",
) -> Tensor:
    """The visible values' mean, weighted by the softmax of the scores (Vaswani et al., eq. 1).

    `query` (B, H, T, K), `key` (B, G, S, ·) as `score.keys` prepares it, `value` (B, G, S, K);
    gives (B, H, T, K). `on_weights` is applied to the (B, H, T, S) weights before they weigh (a
    look at them), and `drop` drops some of them. A query that may look at nothing gives 0. Raises
    ValueError if the implementation cannot do what is asked.
    """
    if implementation == "auto":
        if query.shape[2] == 1 and on_weights is None and visibility.window is not None:
            key, value, visibility = _near(key, value, visibility)
        look = on_weights is not None or not isinstance(score, DotScore)
        implementation = "reference" if look else choose(query, key, visibility)
        if drop is not None and implementation != "banded":
            implementation = "reference"
    if implementation in _LAST_ONLY and visibility.at is not None:
        raise ValueError(f"'{implementation}' takes the queries for the last keys; use 'fused'")
    if implementation in _WITHOUT_WEIGHTS:
        if on_weights is not None:
            raise ValueError(f"'{implementation}' never holds the weights; use 'reference'")
        if drop is not None and implementation != "banded":
            raise ValueError(f"'{implementation}' drops no weights; use 'reference'")
        if not isinstance(score, DotScore):
            name = type(score).__name__
            raise ValueError(
                f"'{implementation}' computes dot products, not {name}; use 'reference'"
            )
        query, key = score.change(query).to(value.dtype), key.to(value.dtype)
        more = {} if drop is None else {"drop": drop}
        return _WITHOUT_WEIGHTS[implementation](query, key, value, visibility, **more)
    weights = attention_weights(query, key, score=score, visibility=visibility)
    weights = on_weights(weights) if on_weights else weights
    return weigh(weights * drop.mask(weights) if drop else weights, value)


def _near(key: Tensor, value: Tensor, visibility: Visibility) -> tuple[Tensor, Tensor, Visibility]:
    """Of the keys in a cache those in the window of the last, where it goes by that alone."""
    S = key.shape[2]
    last = range(S - 1, S)
    seen = visibility.span(last, S)
    if visibility.at is not None or not visibility.sees_all(last, seen):
        return key, value, visibility
    near = slice(seen.start, seen.stop)
    return key[:, :, near], value[:, :, near], full()


def choose(
    query: Tensor, key: Tensor, visibility: Visibility
) -> Literal["reference", "fused", "banded", "blockwise"]:
    """The fastest one for these shapes on this device."""
    T, S = query.shape[2], key.shape[2]
    window = visibility.window if visibility.at is None else None
    if T > 1 and window is not None and BAND_CROSSING * sum(window) <= S:
        return "banded"
    if query.device.type != "cpu":
        return "fused"
    trains = torch.is_grad_enabled() and query.requires_grad
    if len(query) == T == 1 and not trains and key.dtype == torch.float32:
        return "fused"  # one call in place of several
    if visibility.has_documents and visibility.at is None and key.dtype == torch.float32:
        crossing = CPU_CROSSING_DOCUMENTS["training" if trains else "inference"]
        if visibility.is_causal and crossing <= T * S:
            return "blockwise"
    crossings = CPU_CROSSING_TRAINING if trains else CPU_CROSSING_INFERENCE
    crossing = crossings.get(key.dtype, crossings[torch.float32])
    return "fused" if crossing <= T * S else "reference"


def attention_weights(
    query: Tensor, key: Tensor, *, score: Score, visibility: Visibility
) -> Tensor:
    """softmax(score + bias) over the visible keys: (B, H, T, S) float32; dead rows are 0."""
    scores: Tensor = score(query, key)  # (B, H, T, S)
    T, S = scores.shape[-2:]
    bias = visibility.bias(T, S, scores.device)
    if bias is None:
        return scores.softmax(dim=-1, dtype=torch.float32)
    added, alive = bias
    return (scores + added).softmax(dim=-1) * alive


def weigh(weights: Tensor, value: Tensor) -> Tensor:
    """(B, H, T, S), (B, G, S, K) -> (B, H, T, K); the heads of a group share its values."""
    B, H, T, S = weights.shape
    G = value.shape[1]
    weights = weights.to(value.dtype)
    if H == G:
        return weights @ value
    grouped = weights.reshape(B, G, H // G * T, S)
    return (grouped @ value).view(B, H, T, value.shape[-1])


def _fused(query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
    T, S = query.shape[2], key.shape[2]
    grouped = query.shape[1] != key.shape[1]
    if visibility.is_causal_only and T == S:
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=1.0, enable_gqa=grouped
        )
    bias = visibility.bias(T, S, query.device)
    if bias is None:
        return F.scaled_dot_product_attention(query, key, value, scale=1.0, enable_gqa=grouped)
    added, alive = bias
    attended = F.scaled_dot_product_attention(
        query, key, value, attn_mask=added.to(value.dtype), scale=1.0, enable_gqa=grouped
    )
    return attended * alive.to(value.dtype)


def _banded(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, drop: Drop | None = None
) -> Tensor:
    if visibility.window is None:
        raise ValueError("'banded' is for what looks through a window; use 'blockwise'")
    return banded(query, key, value, visibility, drop)


_LAST_ONLY = ("blockwise", "banded", "flex")
_WITHOUT_WEIGHTS: dict[str, Callable[..., Tensor]] = {
    "fused": _fused,
    "blockwise": blockwise,
    "banded": _banded,
    "flex": flex,
}
