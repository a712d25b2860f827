"""Linformer's mixtures of keys against a loop in float64, one number at a time, and its gradients.

Wang et al., 2020 (arXiv 2006.04768), equation 7: softmax(Q (E K)ᵀ) (F V). test_reach.py of the laws
has mixtures that change nothing; here they mix.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.nn.attend import attend
from headway.nn.attention import KeyValue
from headway.nn.reach import Mixtures
from headway.nn.scores import make_score
from headway.nn.visibility import Visibility, full, padding

B, H, G, S, K, N, LONGEST = 2, 4, 2, 5, 3, 3, 8
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def mixed(weights: list[list[Tensor]], values: Tensor, seen: list[bool]) -> list[list[Tensor]]:
    """What each of the mixtures holds of one head's (S, K) values, of those that are real."""
    return [
        [
            sum((row[s] * values[s, k] for s in range(S) if seen[s]), torch.zeros(()).double())
            for k in range(K)
        ]
        for row in weights
    ]


def looked(query: Tensor, keys: list[list[Tensor]], values: list[list[Tensor]]) -> Tensor:
    """Of one query: the mixtures of values, weighted by the softmax of its scores."""
    scores = [sum(query[k] * key[k] for k in range(K)) / K**0.5 for key in keys]
    powers = [torch.exp(torch.as_tensor(score)) for score in scores]
    total = sum(powers)
    return torch.stack(
        [sum(power / total * value[k] for power, value in zip(powers, values, strict=True))
         for k in range(K)]
    )  # fmt: skip


def by_hand(
    of_keys: Tensor, of_values: Tensor, tensors: list[Tensor], real: Tensor | None
) -> Tensor:
    """(B, H, S, K) attended to; the heads of a group share their mixtures."""
    query, key, value = tensors
    rows = []
    for b in range(B):
        seen = [True] * S if real is None else real[b].tolist()
        for h in range(H):
            g = h // (H // G)
            keys = mixed([list(row) for row in of_keys], key[b, g], seen)
            values = mixed([list(row) for row in of_values], value[b, g], seen)
            rows += [looked(query[b, h, t], keys, values) for t in range(S)]
    return torch.stack(rows).view(B, H, S, K)


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize(
    ("seen", "real"), [(full(), None), (padding(REAL), REAL)], ids=["all", "padded"]
)
def test_mixtures_are_the_loop_of_the_paper(
    seen: Visibility, real: Tensor | None, one: bool
) -> None:
    torch.manual_seed(1)
    mixtures = Mixtures(N, LONGEST, one=one).double()
    shapes = ((B, H, S, K), (B, G, S, K), (B, G, S, K))
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    score = make_score("scaled_dot", K, K).double()
    (key, value), all_seen = mixtures(KeyValue(*tensors[1:]), seen)[0][:2], Visibility()
    assert key.shape == value.shape == (B, G, N, K)
    found = attend(
        *(tensors[0], key, value), score=score, visibility=all_seen, implementation="reference"
    )
    wanted = by_hand(mixtures.of_keys, mixtures.of_values, tensors, real)
    near = {"rtol": 1e-5, "atol": 1e-6}  # the softmax is in float32
    torch.testing.assert_close(found, wanted, **near)

    slope, learned = torch.randn_like(wanted), [*tensors, *mixtures.parameters()]
    assert len(learned) == (4 if one else 5)
    ours, right = (torch.autograd.grad((each * slope).sum(), learned) for each in (found, wanted))
    torch.testing.assert_close(ours, right, **near)
    assert all(not grad[:, S:].any() for grad in ours[3:])  # of positions that no text had
    if real is not None:
        hidden = ~real[:, None, :, None].expand(B, G, S, K)
        assert not any(grad[hidden].any() for grad in ours[1:3])
