"""Every implementation of attend on one matrix of cases, against a float64 loop; what they refuse.

Visibility × grouped heads × queries at the end of the keys × dtype, values and gradients.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.nn.attend import (
    CPU_CROSSING_INFERENCE,
    CPU_CROSSING_TRAINING,
    attend,
    choose,
)
from headway.nn.attention import self_attention
from headway.nn.scores import SCORES, make_score
from headway.nn.visibility import Visibility, causal, documents, full, padding, window
from headway.settings.reaching import CPU_CROSSING_DOCUMENTS

B, S, K = 2, 6, 4
REAL = torch.tensor([[True] * 6, [False, True, True, True, False, False]])
NUMBERS = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 2, 2]])
CASES = {
    "full": full,
    "causal": causal,
    "window": lambda: window(1, 2),
    "causal window": lambda: causal() & window(2, 0),
    "padding": lambda: padding(REAL),
    "documents": lambda: documents(NUMBERS),
    "causal padding": lambda: causal() & padding(REAL),  # row 1, query 0: dead
    "all": lambda: causal() & window(1, 0) & padding(REAL) & documents(NUMBERS),
}
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.05}


def inputs(H: int, G: int, T: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((B, H, T, K), (B, G, S, K), (B, G, S, K))
    made = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    return made[0], made[1], made[2]


def loop(query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
    """Attention a query at a time in float64: softmax over the list of the keys it may look at."""
    H, T = query.shape[1:3]
    G = key.shape[1]
    mask = visibility.mask(T, S, query.device)
    seen = torch.ones(B, T, S) if mask is None else mask[:, 0].expand(B, T, S)
    query, key, value = query.double(), key.double(), value.double()
    wanted = torch.zeros(B, H, T, K, dtype=torch.double)
    for row, t in np.ndindex(B, T):
        allowed = [s for s in range(S) if seen[row, t, s]]
        if not allowed:
            continue
        for group in range(G):
            heads = slice(group * H // G, (group + 1) * H // G)
            scores = query[row, heads, t] @ key[row, group, allowed].T / math.sqrt(K)
            wanted[row, heads, t] = scores.softmax(dim=-1) @ value[row, group, allowed]
    return wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("T", [1, 4, 6])
@pytest.mark.parametrize(("H", "G"), [(2, 2), (4, 2)])
@pytest.mark.parametrize("name", CASES)
def test_implementations_equal_a_loop(
    name: str, H: int, G: int, T: int, dtype: torch.dtype
) -> None:
    score = make_score("scaled_dot", K, K)
    tensors = inputs(H, G, T, dtype)
    wanted = loop(*tensors, CASES[name]())
    slope = torch.randn(wanted.shape, dtype=torch.double)
    gradients = torch.autograd.grad((wanted * slope).sum(), tensors, allow_unused=True)
    bands = ("banded",) if CASES[name]().window else ()
    for implementation in ("reference", "fused", "blockwise", "auto", *bands):
        found = attend(
            *tensors, score=score, visibility=CASES[name](), implementation=implementation
        )
        assert found.dtype == dtype
        near = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        torch.testing.assert_close(found.double(), wanted, **near, msg=implementation)
        ours = torch.autograd.grad((found.double() * slope).sum(), tensors)
        for gradient, right in zip(ours, gradients, strict=True):
            torch.testing.assert_close(gradient, right.to(dtype), **near, msg=implementation)
    with torch.no_grad():  # on a CPU torch computes it forward alone; test_flex.py has the rest
        found = attend(*tensors, score=score, visibility=CASES[name](), implementation="flex")
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), wanted, **near, msg="flex")


@pytest.mark.parametrize("implementation", ["reference", "fused", "blockwise", "auto"])
def test_a_query_that_may_look_at_nothing_gives_zero_and_finite_gradients(
    implementation: str,
) -> None:
    query, key, value = inputs(2, 2, S, torch.float32)
    visibility = padding(torch.tensor([[True] * S, [False] * S]))
    found = attend(
        query,
        key,
        value,
        score=make_score("scaled_dot", K, K),
        visibility=visibility,
        implementation=implementation,
    )
    assert found[1].eq(0.0).all()
    assert found[0].ne(0.0).any()
    found.sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad[1].eq(0.0).all()


@pytest.mark.parametrize("implementation", ["reference", "fused", "blockwise", "flex"])
def test_one_new_query_sees_all_the_keys(implementation: str) -> None:
    """q = 0 and v = 0..4: the mean is 2; a kernel that aligns causality to the left gives 0."""
    value = torch.arange(5.0).view(1, 1, 5, 1)
    found = attend(
        torch.zeros(1, 1, 1, 1),
        torch.zeros(1, 1, 5, 1),
        value,
        score=make_score("scaled_dot", 1, 1),
        visibility=causal(),
        implementation=implementation,
    )
    assert found.item() == pytest.approx(2.0)


@pytest.mark.parametrize(
    "visibility",
    [
        causal() & window(2, 0),
        window(2, 5),
        causal().within(3, 1),
        causal().within(3) & padding(REAL),
    ],
)
def test_the_last_query_takes_what_its_window_shows(visibility: Visibility) -> None:
    query, key, value = (part.detach() for part in inputs(4, 2, 1, torch.float32))
    score = make_score("scaled_dot", K, K)
    if all(rule.by_distance for rule in visibility.rules):
        key[:, :, : S - 3] = math.nan  # not even looked at
    found = attend(query, key, value, score=score, visibility=visibility)
    torch.testing.assert_close(found.double(), loop(query, key, value, visibility))


@pytest.mark.parametrize("visibility", [causal(), window(1, 0) & causal(), window(2, 1)])
@pytest.mark.parametrize("implementation", ["reference", "fused", "blockwise"])
@pytest.mark.parametrize("name", ["dot", "scaled_dot", "bilinear", "low_rank_bilinear"])
def test_scores_that_are_dot_products_can_be_fused(
    name: str, implementation: str, visibility: Visibility
) -> None:
    score = make_score(name, K, K, n_heads=4, n_kv_heads=2, rank=2)
    tensors = inputs(4, 2, 3, torch.float32)
    with_weights = attend(*tensors, score=score, visibility=visibility, implementation="reference")
    found = attend(*tensors, score=score, visibility=visibility, implementation=implementation)
    torch.testing.assert_close(found, with_weights)


def test_fused_refuses_what_it_cannot_do_and_names_what_can() -> None:
    tensors = inputs(1, 1, S, torch.float32)
    additive = make_score("additive", K, K)
    with pytest.raises(ValueError, match="'fused' computes dot products, not AdditiveScore; use"):
        attend(*tensors, score=additive, visibility=full(), implementation="fused")
    dot = make_score("dot", K, K)
    with pytest.raises(ValueError, match="never holds the weights; use 'reference'"):
        attend(
            *tensors,
            score=dot,
            visibility=full(),
            on_weights=lambda weights: weights,
            implementation="fused",
        )


@pytest.mark.parametrize("name", list(SCORES))
def test_a_look_at_the_weights_changes_nothing(name: str) -> None:
    query, key, value = inputs(4, 2, S, torch.float32)
    score = make_score(name, K, K, n_heads=4, n_kv_heads=2, rank=3)
    key = score.keys(key)
    seen = []

    def look(weights: Tensor) -> Tensor:
        seen.append(weights)
        return weights

    visibility = CASES["causal padding"]()
    plain = attend(query, key, value, score=score, visibility=visibility)
    looked = attend(query, key, value, score=score, visibility=visibility, on_weights=look)
    torch.testing.assert_close(looked, plain, rtol=1e-5, atol=1e-5)
    assert seen[0].shape == (B, 4, S, S)
    assert seen[0].dtype == torch.float32
    sums = seen[0].sum(dim=-1)  # (B, H, T)
    assert sums[1, :, 0].eq(0.0).all()  # the dead query
    torch.testing.assert_close(sums[0], torch.ones(4, S))
    torch.testing.assert_close(sums[1, :, 1:], torch.ones(4, S - 1))


def test_what_is_done_to_the_weights_weighs() -> None:
    tensors = inputs(1, 1, S, torch.float32)
    score = make_score("scaled_dot", K, K)
    plain = attend(*tensors, score=score, visibility=full())
    doubled = attend(*tensors, score=score, visibility=full(), on_weights=lambda w: 2 * w)
    torch.testing.assert_close(doubled, 2 * plain)


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_auto_takes_the_fused_kernel_from_its_crossing_on(trains: bool, dtype: torch.dtype) -> None:
    crossings = CPU_CROSSING_TRAINING if trains else CPU_CROSSING_INFERENCE
    side = math.isqrt(crossings[dtype])
    for T, wanted in ((side, "fused"), (side - 1, "reference")):
        tensor = torch.empty(1, 1, T, 1, requires_grad=trains, dtype=dtype)
        assert choose(tensor, tensor, full()) == wanted
    with torch.no_grad():
        side = math.isqrt(CPU_CROSSING_INFERENCE[dtype])
        tensor = torch.empty(1, 1, side, 1, requires_grad=True, dtype=dtype)
        assert choose(tensor, tensor, full()) == "fused"


@pytest.mark.parametrize("trains", [True, False])
def test_auto_skips_what_long_rows_of_documents_do_not_share(trains: bool) -> None:
    side = math.isqrt(CPU_CROSSING_DOCUMENTS["training" if trains else "inference"])
    apart = causal() & documents(torch.zeros(1, side, dtype=torch.int64))
    for T, seen, dtype, wanted in (
        (side, apart, torch.float32, "blockwise"),
        (side - 1, apart, torch.float32, "fused"),
        (side, apart, torch.bfloat16, "fused"),
        (side, causal(), torch.float32, "fused"),
        (side, causal() & padding(torch.ones(1, side, dtype=torch.bool)), torch.float32, "fused"),
    ):
        tensor = torch.empty(1, 1, T, 1, requires_grad=trains, dtype=dtype)
        assert choose(tensor, tensor, seen) == wanted


def test_auto_gives_of_long_documents_what_they_give_apart() -> None:
    """Lengths that end within tiles, and one document of a single token."""
    torch.manual_seed(0)
    lengths = (700, 1, 1347)
    tensors = [torch.randn(1, 1, sum(lengths), K, requires_grad=True) for _ in range(3)]
    assert choose(*tensors[:2], causal() & documents(torch.empty(0))) == "blockwise"
    score = make_score("scaled_dot", K, K)
    numbers = torch.arange(3).repeat_interleave(torch.tensor(lengths))[None]
    packed = attend(*tensors, score=score, visibility=causal() & documents(numbers))
    pieces = zip(*(part.split(lengths, dim=2) for part in tensors), strict=True)
    apart = torch.cat([attend(*piece, score=score, visibility=causal()) for piece in pieces], dim=2)
    torch.testing.assert_close(packed, apart)
    slope = torch.randn_like(packed)
    ways = ([*torch.autograd.grad((found * slope).sum(), tensors)] for found in (packed, apart))
    torch.testing.assert_close(*ways, rtol=1e-4, atol=1e-5)


def test_auto_takes_one_call_for_the_next_token_of_one_text() -> None:
    query, key = torch.empty(1, 4, 1, 8), torch.empty(1, 4, 5, 8)
    for parts, wanted in (
        ((query, key), "fused"),
        ((query.expand(2, -1, -1, -1), key.expand(2, -1, -1, -1)), "reference"),
        ((query.expand(-1, -1, 2, -1), key), "reference"),
        ((query.bfloat16(), key.bfloat16()), "reference"),
        ((query.clone().requires_grad_(), key), "reference"),
    ):
        assert choose(*parts, causal()) == wanted


def test_auto_is_right_on_both_sides_of_the_crossing() -> None:
    torch.manual_seed(0)
    score = make_score("scaled_dot", K, K)
    for T in (127, 128):
        tensors = [torch.randn(1, 1, T, K) for _ in range(3)]
        auto = attend(*tensors, score=score, visibility=causal())
        loop_free = attend(*tensors, score=score, visibility=causal(), implementation="reference")
        torch.testing.assert_close(auto, loop_free, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list(SCORES))
def test_self_attention_without_projections(name: str) -> None:
    torch.manual_seed(5)
    hidden, score = torch.randn(2, 5, 4), make_score(name, 4, 4, rank=3)
    found = self_attention(hidden, score=score, visibility=causal())
    torch.testing.assert_close(found[:, 0], hidden[:, 0])  # it may only look at itself
    for t in range(5):
        keys = score.keys(hidden[:, None, : t + 1])
        weights = score(hidden[:, None, t : t + 1], keys).softmax(dim=-1)  # (2, 1, 1, t + 1)
        torch.testing.assert_close(found[:, t], (weights[:, 0] @ hidden[:, : t + 1])[:, 0])
