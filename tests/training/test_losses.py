"""The chunked loss is torch's cross-entropy, in value and gradient, and never holds all logits."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from headway.training.losses import CHUNK, token_loss, token_statistics

V, D = 37, 8
SIZES = [1, 5, CHUNK, CHUNK + 1, 2 * CHUNK + 100]
# float32 gradients of the weight are sums over N rows
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-2}


def case(n: int, dtype: torch.dtype, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    hidden = torch.randn(n, D, generator=generator).to(dtype) * scale
    # the weight stays in float32 when the hidden is in bfloat16, as in training
    weight = torch.randn(V, D, generator=generator).to(torch.promote_types(dtype, torch.float32))
    targets = torch.randint(0, V, (n,), generator=generator)
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def expected(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, share: float
) -> list[Tensor]:
    """Objective, likelihood and gradients by torch, in float64, of the same rounded inputs."""
    exact = hidden.detach().double().requires_grad_()
    matrix = weight.detach().to(hidden.dtype).double().requires_grad_()
    logits = exact @ matrix.T
    objective = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    nll = F.cross_entropy(logits, targets, reduction="sum")
    return [objective, nll, *torch.autograd.grad(objective * share, (exact, matrix))]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("n", SIZES)
def test_values_and_gradients_are_torchs(n: int, smoothing: float, dtype: torch.dtype) -> None:
    hidden, weight, targets = case(n, dtype)
    loss = token_loss(hidden, weight, targets, smoothing)
    share = 1.0 / 3.0  # what the step divides by
    (loss.objective * share).backward()
    assert loss.objective.dtype == loss.nll.dtype == torch.float64
    assert hidden.grad is not None
    assert weight.grad is not None
    assert (hidden.grad.dtype, weight.grad.dtype) == (dtype, weight.dtype)
    found = [loss.objective, loss.nll, hidden.grad, weight.grad]
    for ours, theirs in zip(
        found, expected(hidden, weight, targets, smoothing, share), strict=True
    ):
        error = (ours.double() - theirs).abs().max() / theirs.abs().max()
        assert error < TOLERANCE[dtype]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_that_of_the_value(smoothing: float) -> None:
    """By finite differences, and not scaled by a rounded factor."""
    hidden, weight, targets = case(6, torch.float64)
    assert torch.autograd.gradcheck(
        lambda *inputs: token_loss(*inputs, targets, smoothing).objective, (hidden, weight)
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_bias_is_a_part_of_the_projection(smoothing: float) -> None:
    hidden, weight, targets = case(CHUNK + 6, torch.float64)
    generator = torch.Generator().manual_seed(3)
    bias = torch.randn(len(weight), generator=generator, dtype=torch.float64, requires_grad=True)
    inputs = (hidden, weight, bias)
    loss = token_loss(hidden, weight, targets, smoothing, bias)
    logits = F.linear(hidden, weight, bias)
    wanted = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    assert loss.objective.item() == pytest.approx(wanted.item(), rel=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(loss.objective, inputs),
        torch.autograd.grad(wanted, inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    nll, _ = token_statistics(hidden, partial(F.linear, weight=weight, bias=bias), targets)
    assert nll.sum().item() == pytest.approx(loss.nll.item(), rel=1e-6)


def test_of_frozen_weights_there_is_no_gradient() -> None:
    """Low-rank updates leave the output as it is: its gradient would be a third of the work."""
    hidden, weight, targets = case(CHUNK + 6, torch.float32)
    whole, frozen, alone = (
        token_loss(*inputs, targets, 0.1).objective
        for inputs in ((hidden, weight), (hidden, weight.detach()), (hidden.detach(), weight))
    )
    assert [each is None for each in frozen.grad_fn.saved_tensors] == [False, True, True]
    assert [each is None for each in alone.grad_fn.saved_tensors] == [True, False, True]
    of_hidden, of_weight = torch.autograd.grad(whole, (hidden, weight))
    assert torch.equal(*torch.autograd.grad(frozen, hidden), of_hidden)
    assert torch.equal(*torch.autograd.grad(alone, weight), of_weight)


def test_scaling_a_bfloat16_gradient_loses_nothing_on_average() -> None:
    """1/3 rounded to bfloat16 is 0.2 % too large: it must not scale one of two gradients."""
    gradients = []
    for share in (1.0, 1.0 / 3.0):
        hidden, weight, targets = case(CHUNK, torch.bfloat16)
        (token_loss(hidden, weight, targets, 0.1).objective * share).backward()
        assert hidden.grad is not None
        gradients.append(hidden.grad.double().abs().sum())
    assert abs(float(gradients[1] / gradients[0] * 3) - 1) < 2e-4


def test_only_the_objective_is_smoothed() -> None:
    hidden, weight, targets = case(50, torch.float32)
    plain, smooth = (token_loss(hidden, weight, targets, rate) for rate in (0.0, 0.1))
    assert plain.objective == plain.nll == smooth.nll
    assert smooth.objective != smooth.nll
    assert not plain.nll.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_targets_add_exactly_nothing(smoothing: float) -> None:
    """B3: a batch without a target is 0, and so are its gradients; not 0/0."""
    hidden, weight, targets = case(0, torch.float32)
    loss = token_loss(hidden, weight, targets, smoothing)
    assert (loss.objective.item(), loss.nll.item()) == (0.0, 0.0)
    loss.objective.backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.zeros_like(weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_logits_stay_finite(dtype: torch.dtype) -> None:
    hidden, weight, targets = case(9, dtype, scale=1e4)
    loss = token_loss(hidden, weight, targets, 0.1)
    loss.objective.backward()
    assert torch.isfinite(loss.objective)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert hidden.grad.isfinite().all()
    assert weight.grad.isfinite().all()


class Largest(TorchDispatchMode):
    """Notes the most elements that any operation returned."""

    elements = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        made = function(*arguments, **(options or {}))
        for value in made if isinstance(made, tuple | list) else (made,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return made


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_all_logits_are_never_held(smoothing: float) -> None:
    n = 4 * CHUNK
    hidden, weight, targets = case(n, torch.float32)
    with Largest() as largest:
        F.cross_entropy(hidden @ weight.T, targets).backward()
    assert largest.elements == n * V  # what the measure shows of a loss that does hold them
    for measured in ("loss", "statistics"):
        with Largest() as largest:
            if measured == "loss":
                token_loss(hidden, weight, targets, smoothing).objective.backward()
            else:
                token_statistics(hidden, partial(F.linear, weight=weight), targets)
        assert CHUNK * V <= largest.elements < CHUNK * V * 2


@pytest.mark.parametrize("n", [1, CHUNK + 3])
def test_statistics_are_the_likelihood_and_the_first_choice(n: int) -> None:
    hidden, weight, targets = case(n, torch.float32)
    nll, right = token_statistics(hidden, partial(F.linear, weight=weight), targets)
    logits = hidden.double() @ weight.double().T
    torch.testing.assert_close(
        nll.double(), F.cross_entropy(logits, targets, reduction="none"), rtol=1e-5, atol=1e-5
    )
    assert torch.equal(right, logits.argmax(dim=-1) == targets)
    assert not nll.requires_grad
    assert float(nll.double().sum()) == pytest.approx(
        float(token_loss(hidden, weight, targets, 0.3).nll), rel=1e-6
    )
