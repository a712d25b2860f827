"""The loss of token prediction: a sum and a count, so that whoever divides does it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 512  # rows of logits held at a time: few enough to stay in a cache


class TokenLoss(NamedTuple):
    """Sums over the target tokens: what is minimised, and the plain negative log-likelihood.

    They differ by label smoothing; perplexity is made of the plain one only. In nats.
    """

    objective: Tensor
    nll: Tensor


class _HeadLoss(torch.autograd.Function):
    """Output projection and cross-entropy in one, in chunks, so that (N, V) never exists.

    The gradients of a chunk are computed while its logits are at hand; the backward pass only
    scales them, which is right because the loss is the end of the graph.
    """

    @staticmethod
    def forward(
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        V, dtype = len(weight), hidden.dtype
        exact = torch.promote_types(dtype, torch.float32)
        sums = torch.float32 if hidden.device.type == "mps" else torch.float64  # MPS has no more
        projection = weight.to(dtype)
        of_hidden, of_weight, *_ = context.needs_input_grad  # frozen weights need none
        hidden_gradient = torch.empty_like(hidden) if of_hidden else None
        weight_gradient = torch.zeros_like(weight, dtype=exact) if of_weight else None
        bias_gradient = torch.zeros_like(bias, dtype=exact) if bias is not None else None
        objective = hidden.new_zeros((), dtype=sums)
        nll = hidden.new_zeros((), dtype=sums)
        for start in range(0, len(hidden), CHUNK):
            rows, wanted = hidden[start : start + CHUNK], targets[start : start + CHUNK]
            logits = (rows @ projection.T).to(exact)  # (n, V)
            if bias is not None:
                logits += bias
            chosen = logits.gather(1, wanted[:, None]).squeeze(1)  # (n,)
            likely = chosen  # the mean logit under the target distribution
            if smoothing:
                likely = (1.0 - smoothing) * chosen + smoothing * logits.mean(dim=-1)
            top = logits.amax(dim=-1)
            powers = logits.sub_(top[:, None]).exp_()  # in place, and once: exp costs the most here
            summed = powers.sum(dim=-1)
            total = top + summed.log()
            nll += (total - chosen).sum()
            objective += (total - likely).sum()
            if not any(context.needs_input_grad):
                continue
            gradient = powers.div_(summed[:, None])  # the softmax
            if smoothing:
                gradient -= smoothing / V
            down = torch.full_like(chosen, smoothing - 1.0)
            gradient.scatter_add_(1, wanted[:, None], down[:, None])
            if bias_gradient is not None:
                bias_gradient += gradient.sum(dim=0)
            gradient = gradient.to(dtype)
            if hidden_gradient is not None:
                hidden_gradient[start : start + CHUNK] = gradient @ projection
            if weight_gradient is not None:
                weight_gradient += gradient.T @ rows
        context.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        context.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    def backward(context: Any, objective: Tensor, nll: Tensor) -> Any:
        # a scalar tensor leaves the dtype of what it scales
        scaled = [each if each is None else each * objective for each in context.saved_tensors]
        return *scaled, None, None


def token_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    bias: Tensor | None = None,
) -> TokenLoss:
    """Cross-entropy of hidden (N, D) through `weight` (V, D) and `bias` (V,) against targets (N,).

    Label smoothing as torch.nn.functional.cross_entropy has it. Logits are made in the dtype of
    `hidden`, the rest at least in float32, the sums in float64 where the device has it.
    """
    found = _HeadLoss.apply(hidden, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return TokenLoss(*found)


@torch.no_grad()
def token_statistics(
    hidden: Tensor, head: Callable[[Tensor], Tensor], targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood (N,) in nats and whether the likeliest token is the target (N,).

    `head` makes logits (N, V) of hidden (N, D).
    """
    found = []
    for start in range(0, len(hidden), CHUNK):
        rows, wanted = hidden[start : start + CHUNK], targets[start : start + CHUNK]
        logits = head(rows).float()
        nll = F.cross_entropy(logits, wanted, reduction="none")
        found.append((nll, logits.argmax(dim=-1) == wanted))
    return torch.cat([nll for nll, _ in found]), torch.cat([right for _, right in found])
