"""Attention by blocks of a mask: what the plain products give, at lengths within a block too.

On a CPU torch computes it forward alone; where there is a GPU the kernel and its gradients are
tested.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.nn.attend import attend
from headway.nn.flex import BLOCK, _blocks
from headway.nn.scores import make_score
from headway.nn.visibility import causal, documents, full, padding, window

B, H, G, S, K = 2, 4, 2, 2 * BLOCK + 45, 16
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
REAL = torch.arange(S, device=DEVICE) >= torch.tensor([[0], [150]], device=DEVICE)
SIZES = torch.tensor([[70], [140]], device=DEVICE)
NUMBERS = torch.arange(S, device=DEVICE).expand(B, -1) // SIZES
CASES = {
    "full": full(),
    "causal": causal(),
    "window": window(20, 10),
    "causal window": causal() & window(30, 0),
    "window and first": causal().within(30, 3),
    "padding": padding(REAL),
    "padding of one row": padding(REAL[1:]),
    "documents": documents(NUMBERS),
    "causal padding": causal() & padding(REAL),  # dead queries, a block of them
    "all": causal() & window(30, 0) & padding(REAL) & documents(NUMBERS),
}


def inputs(T: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((B, H, T, K), (B, G, S, K), (B, G, S, K))
    made = [torch.randn(shape, device=DEVICE, requires_grad=ON_GPU) for shape in shapes]
    return made[0], made[1], made[2]


@pytest.mark.parametrize("T", [1, BLOCK + 7, S])
@pytest.mark.parametrize("name", CASES)
def test_blocks_of_a_mask_give_what_the_mask_gives(name: str, T: int) -> None:
    tensors, score = inputs(T), make_score("scaled_dot", K, K)
    found, wanted = (
        attend(*tensors, score=score, visibility=CASES[name], implementation=implementation)
        for implementation in ("flex", "reference")
    )
    near = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(found, wanted, **near)
    if ON_GPU:
        slope = torch.randn_like(wanted)
        ours, right = (
            torch.autograd.grad((each * slope).sum(), tensors) for each in (found, wanted)
        )
        torch.testing.assert_close(ours, right, **near)


def test_blocks_that_see_nothing_are_passed_over() -> None:
    n = 8
    for visibility, most in (
        (window(BLOCK, 0) & causal(), 2),
        (documents(torch.arange(n * BLOCK)[None] // BLOCK), 1),
    ):
        blocks = _blocks(visibility, n * BLOCK, n * BLOCK, torch.device("cpu"))
        met = blocks.kv_num_blocks + blocks.full_kv_num_blocks
        assert met.max() == most


def test_learning_on_a_cpu_is_refused() -> None:
    tensors = [each.detach().cpu().requires_grad_() for each in inputs(4)]
    how: dict[str, Any] = {"score": make_score("scaled_dot", K, K), "visibility": full()}
    with pytest.raises(ValueError, match="'flex' does not learn on a CPU; use 'blockwise'"):
        attend(*tensors, **how, implementation="flex")
    with torch.no_grad():
        attend(*tensors, **how, implementation="flex")


def test_blocks_of_inference_are_not_those_of_training() -> None:
    """What inference mode made cannot be used in a graph."""
    visibility, score = causal(), make_score("scaled_dot", K, K)
    for infers in (True, False):
        with torch.inference_mode(infers):
            tensors = [each.detach() for each in inputs(4)]
            attend(*tensors, score=score, visibility=visibility, implementation="flex")
    made = [each.kv_indices.is_inference() for each in visibility._made.values()]
    assert made == [True, False]


def test_queries_elsewhere_are_refused() -> None:
    at = torch.zeros(B, 1, dtype=torch.int64, device=DEVICE)
    visibility = causal(at)
    with pytest.raises(ValueError, match="'flex' takes the queries for the last keys"):
        attend(
            *inputs(1),
            score=make_score("scaled_dot", K, K),
            visibility=visibility,
            implementation="flex",
        )
