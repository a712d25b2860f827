"""The five scores against float64 loops written from their formulas, one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.nn.scores import SCORES, DotScore, Score, make_score

B, T, S, R = 2, 3, 4, 5


def formula(name: str, score: Score, head: int, group: int, query: Tensor, key: Tensor) -> float:
    """One score of one query (K,) and one key (K,), from the formula in the docstring."""
    weights = {key: value.detach().double().numpy() for key, value in score.named_parameters()}
    q, k = query.double().numpy(), key.double().numpy()
    if name == "dot":
        return float(sum(a * b for a, b in zip(q, k, strict=True)))
    if name == "scaled_dot":
        return float(sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)))
    if name == "bilinear":
        return float(q @ weights["weight"][head] @ k)
    if name == "low_rank_bilinear":
        return float(q @ weights["query_weight"][head] @ weights["key_weight"][head] @ k)
    inner = q @ weights["query_weight"][head] + k @ weights["key_weight"][group]
    return float(np.tanh(inner) @ weights["vector"][head][:, 0])


WIDTHS = [(name, 6) for name in SCORES] + [
    (name, 8) for name in ("bilinear", "low_rank_bilinear", "additive")
]


@pytest.mark.parametrize(("name", "d_key"), WIDTHS)
@pytest.mark.parametrize(("H", "G"), [(1, 1), (4, 4), (4, 2), (4, 1)])
def test_equals_its_formula(name: str, d_key: int, H: int, G: int) -> None:
    d_query = 6
    torch.manual_seed(0)
    rank = R if name in ("low_rank_bilinear", "additive") else None
    score = make_score(name, d_query, d_key, n_heads=H, n_kv_heads=G, rank=rank)
    query, key = torch.randn(B, H, T, d_query), torch.randn(B, G, S, d_key)
    scores = score(query, score.keys(key))
    assert scores.shape == (B, H, T, S)
    for place in np.ndindex(B, H, T, S):
        row, head, t, s = place
        group = head // (H // G)
        wanted = formula(name, score, head, group, query[row, head, t], key[row, group, s])
        assert scores[place].item() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", list(SCORES))
def test_is_worked_out_by_autograd(name: str) -> None:
    torch.manual_seed(1)
    score = make_score(name, 4, 4, n_heads=4, n_kv_heads=2, rank=3).double()
    query = torch.randn(1, 4, 2, 4, dtype=torch.double, requires_grad=True)
    key = torch.randn(1, 2, 3, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, k: score(q, score.keys(k)), (query, key))
    score(query, score.keys(key)).square().sum().backward()
    for label, weight in score.named_parameters():
        assert weight.grad is not None, label
        assert weight.grad.flatten(1).abs().sum(dim=1).gt(0).all(), f"a head of {label} is unused"


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "bilinear", "low_rank_bilinear"])
def test_a_changed_query_and_a_dot_product_are_the_score(name: str) -> None:
    """So any kernel for dot products may compute it."""
    torch.manual_seed(2)
    score = make_score(name, 6, 6, n_heads=2, rank=3)
    assert isinstance(score, DotScore)
    query, key = torch.randn(B, 2, T, 6), torch.randn(B, 2, S, 6)
    torch.testing.assert_close(score.change(query) @ key.mT, score(query, score.keys(key)))


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_a_dot_product_needs_one_width(name: str) -> None:
    with pytest.raises(ValueError, match="one width, not 6 and 8"):
        make_score(name, 6, 8)


def test_ranks_are_as_asked() -> None:
    assert make_score("additive", 6, 8, rank=5).vector.shape == (1, 5, 1)
    assert make_score("additive", 6, 8).vector.shape == (1, 6, 1)
    assert make_score("low_rank_bilinear", 8, 16, rank=3).query_weight.shape == (1, 8, 3)
    with pytest.raises(ValueError, match="needs its rank"):
        make_score("low_rank_bilinear", 8, 16)


def test_scaled_dot_products_of_independent_features_have_variance_one() -> None:
    """Why they are scaled (Vaswani et al., 2017, footnote 4), and that dot has variance K."""
    torch.manual_seed(3)
    K = 64
    query, key = torch.randn(1, 1, 200, K), torch.randn(1, 1, 200, K)
    scaled, dot = make_score("scaled_dot", K, K), make_score("dot", K, K)
    assert scaled(query, key).var().item() == pytest.approx(1.0, rel=0.1)
    assert dot(query, key).var().item() == pytest.approx(K, rel=0.1)


@pytest.mark.parametrize("name", ["bilinear", "low_rank_bilinear", "additive"])
def test_first_weights_have_the_variance_that_they_say(name: str) -> None:
    torch.manual_seed(4)
    for label, weight in make_score(name, 64, 64, n_heads=4, rank=32).named_parameters():
        bound = weight.shape[-2] ** -0.5
        assert weight.abs().max().item() <= bound, label
        if weight.numel() > 1000:
            assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.1), label
