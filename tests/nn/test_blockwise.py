"""Attention tile by tile: any tiles give what the whole matrix of weights gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.nn.attend import attend
from headway.nn.blockwise import blockwise
from headway.nn.scores import make_score
from headway.nn.visibility import Visibility, causal, documents, full, padding, window

B, H, G, S, K = 2, 4, 2, 11, 8
REAL = torch.arange(S) >= torch.tensor([[0], [3]])
NUMBERS = torch.arange(S).expand(B, -1) // torch.tensor([[4], [3]])
CASES = {
    "full": full(),
    "causal": causal(),
    "window": window(2, 1),
    "causal window": causal() & window(3, 0),
    "padding": padding(REAL),
    "documents": documents(NUMBERS),
    "causal padding": causal() & padding(REAL),  # dead queries
    "all": causal() & window(2, 0) & padding(REAL) & documents(NUMBERS),
}


def inputs(T: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((B, H, T, K), (B, G, S, K), (B, G, S, K + 1))
    made = [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    return made[0], made[1], made[2]


@pytest.mark.parametrize("T", [1, 7, S])
@pytest.mark.parametrize("side", [1, 4, 5, 64])
@pytest.mark.parametrize("name", CASES)
def test_any_tiles_give_the_same_values_and_gradients(name: str, side: int, T: int) -> None:
    tensors, score = inputs(T), make_score("dot", K, K)
    wanted = attend(*tensors, score=score, visibility=CASES[name], implementation="reference")
    slope = torch.randn_like(wanted)
    gradients = torch.autograd.grad((wanted * slope).sum(), tensors)
    found = blockwise(*tensors, CASES[name], side=side)
    near = {"rtol": 1e-5, "atol": 1e-5}  # softmax is in float32 whatever the dtype
    torch.testing.assert_close(found, wanted, **near)
    ours = torch.autograd.grad((found * slope).sum(), tensors)
    for mine, right in zip(ours, gradients, strict=True):
        torch.testing.assert_close(mine, right, **near)


@pytest.mark.parametrize("visibility", [causal(), window(4, 3), causal() & window(9, 0)])
def test_tiles_that_see_nothing_are_passed_over(visibility: Visibility) -> None:
    """And no tile that sees something."""
    mask = visibility.mask(64, 64, torch.device("cpu"))
    assert mask is not None
    for first in range(0, 64, 8):
        span = visibility.span(range(first, first + 8), 64)
        seen = mask[0, 0, first : first + 8].any(dim=0).nonzero()[:, 0]
        assert (span.start, span.stop) == (int(seen.min()), int(seen.max()) + 1)
        for begin in range(0, 64, 8):
            whole = visibility.sees_all(range(first, first + 8), range(begin, begin + 8))
            assert whole == bool(mask[0, 0, first : first + 8, begin : begin + 8].all())
