"""Attention in a band: what the whole matrix of weights gives, in any chunks and slabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.nn import banded as module
from headway.nn.attend import attend
from headway.nn.banded import banded
from headway.nn.blockwise import blockwise
from headway.nn.dropout import Drop
from headway.nn.scores import make_score
from headway.nn.visibility import Visibility, causal, documents, full, padding, window

B, H, G, K = 2, 4, 2, 8
CASES = {
    "window": lambda S: window(3, 2),
    "causal": lambda S: causal() & window(5, 0),
    "to the right": lambda S: window(0, 9),
    "wider than the text": lambda S: window(200, 200),
    "padding": lambda S: window(4, 4) & padding(torch.arange(S) >= torch.tensor([[0], [3]])),
    "dead": lambda S: (
        causal() & window(1, 0) & padding(torch.arange(S) >= torch.tensor([[0], [4]]))
    ),
    "first": lambda S: full().within(8, 2),
    "first, causal": lambda S: causal().within(8, 3),
    "first, nearer": lambda S: full().within(8, 2) & window(2, 1),
    "first, padding": lambda S: padding(torch.arange(S) < torch.tensor([[S], [3]])).within(4, 2),
    "first, dead": lambda S: padding(torch.arange(S) >= torch.tensor([[0], [4]])).within(2, 1),
    "dilated": lambda S: window(12, 6, 3),
    "dilated twice": lambda S: window(12, 6, 3) & window(8, 8, 2),
    "dilated and not": lambda S: window(12, 6, 3) & window(7, 20),
    "dilated, no multiple": lambda S: causal() & window(13, 0, 4),
    "dilated, padding": lambda S: (
        window(8, 8, 2) & padding(torch.arange(S) >= torch.tensor([[0], [3]]))
    ),
    "dilated, one mask": lambda S: window(8, 8, 2) & padding(torch.arange(S)[None] < S - 2),
    "dilated, first": lambda S: full().within(8, 2, 3),
    "dilated, first, causal": lambda S: causal().within(8, 3, 2),
    "dilated, documents": lambda S: (
        window(6, 4, 2) & documents(torch.arange(S) // torch.tensor([[4], [3]]))
    ),
    "dilated, first, padding": lambda S: (
        full().within(8, 2, 3) & padding(torch.arange(S) < torch.tensor([[S - 2], [S]]))
    ),
    "dilated, first, documents": lambda S: (
        causal().within(8, 3, 2) & documents(torch.arange(S) // torch.tensor([[4], [9]]))
    ),
    "dilated, first, and not": lambda S: window(9, 9) & full().within(8, 2, 2),
    "documents": lambda S: window(6, 1) & documents(torch.arange(S) // torch.tensor([[4], [3]])),
}


def inputs(T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((B, H, T, K), (B, G, S, K), (B, G, S, K + 1))
    made = [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    return made[0], made[1], made[2]


@pytest.mark.parametrize(("least", "slab"), [(4, 1), (4, 3000), (8, 2**30), (64, 2**30)])
@pytest.mark.parametrize(("T", "S"), [(1, 50), (50, 50), (37, 50), (7, 7), (3, 50)])
@pytest.mark.parametrize("name", CASES)
def test_any_chunks_give_the_same_values_and_gradients(
    name: str, T: int, S: int, least: int, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST", least)
    monkeypatch.setattr(module, "SLAB", slab)
    tensors, visibility = inputs(T, S), CASES[name](S)
    near = {"rtol": 1e-5, "atol": 1e-5}  # softmax is in float32 whatever the dtype
    wanted = blockwise(*tensors, visibility)
    found = banded(*tensors, visibility)
    torch.testing.assert_close(found, wanted, **near)
    slope = torch.randn_like(wanted)
    gradients = [torch.autograd.grad((mean * slope).sum(), tensors) for mean in (found, wanted)]
    for ours, right in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, right, **near)


def test_what_is_no_number_stays_so() -> None:
    """A divergence is not hidden where a query may also be left with nothing."""
    query, key, value = (each.detach() for each in inputs(50, 50))
    query[0, 0, 20] = torch.nan
    looks = window(4, 4) & padding(torch.arange(50)[None] >= 10)
    found = banded(query, key, value, looks)
    wanted = attend(query, key, value, score=make_score("dot", K, K), visibility=looks)
    assert found[0, 0, 20].isnan().all()
    assert torch.equal(found.isnan(), wanted.isnan())
    assert not found[:, :, :5].any()


DROP = Drop(0.3, (3, 5, 1, 0))


def weights_of(drop: Drop | None, query: Tensor, key: Tensor, looks: Visibility) -> Tensor:
    """What weighs (B, H, T, S): the values of a value of each key's own."""
    S = key.shape[2]
    own = torch.eye(S, dtype=query.dtype).expand(B, G, S, S)
    return banded(query, key, own, looks, drop)


@pytest.mark.parametrize(("T", "slab"), [(50, 1), (50, 2**30), (37, 3000)])
@pytest.mark.parametrize("name", CASES)
def test_dropped_weights_weigh_as_in_the_reference(
    name: str, T: int, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients, with the mask that the band made."""
    monkeypatch.setattr(module, "LEAST", 4)
    monkeypatch.setattr(module, "SLAB", slab)
    tensors, looks = inputs(T, 50), CASES[name](50)
    with torch.no_grad():
        plain, dropped = (weights_of(drop, *tensors[:2], looks) for drop in (None, DROP))
        mask = torch.where(plain > 0, dropped / plain, 1.0)
    assert mask[plain > 0].eq(0).float().mean().item() == pytest.approx(0.3, abs=0.05)
    wanted = attend(
        *tensors, score=make_score("dot", K, K), visibility=looks, on_weights=lambda w: w * mask
    )
    found = banded(*tensors, looks, DROP)
    slope = torch.randn_like(wanted)
    gradients = [torch.autograd.grad((mean * slope).sum(), tensors) for mean in (found, wanted)]
    for ours, right in zip((found, *gradients[0]), (wanted, *gradients[1]), strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-5, atol=1e-5)


def test_what_is_dropped_is_a_function_of_its_key() -> None:
    query, key, _ = (each.detach() for each in inputs(400, 400))
    looks, rounded = window(8, 8), round(0.3 * 256) / 256
    plain = weights_of(None, query, key, looks)
    kept = weights_of(DROP, query, key, looks)
    assert torch.equal(weights_of(DROP, query, key, looks), kept)
    seen = plain > 0
    shares = [kept[seen].eq(0).float().mean().item()]
    left = kept[seen & (kept > 0)] / plain[seen & (kept > 0)]
    torch.testing.assert_close(left, torch.full_like(left, 1 / (1 - rounded)))
    for other in ((4, 5, 1, 0), (3, 6, 1, 0), (3, 5, 2, 0), (3, 5, 1, 1)):
        also = weights_of(Drop(0.3, other), query, key, looks)
        shares.append(also[seen].eq(0).float().mean().item())
        both = (also[seen].eq(0) & kept[seen].eq(0)).float().mean().item()
        assert both == pytest.approx(rounded**2, abs=0.01)  # as unrelated masks
    assert shares == pytest.approx([rounded] * 5, abs=0.01)


def test_dropping_is_for_the_reference_and_for_bands() -> None:
    tensors = [each.detach().float() for each in inputs(50, 50)]
    given: dict[str, Any] = {"score": make_score("scaled_dot", K, K), "visibility": window(2, 2)}
    auto = attend(*tensors, **given, drop=DROP)
    assert torch.equal(auto, attend(*tensors, **given, drop=DROP, implementation="banded"))
    full_view = given | {"visibility": full()}
    whole = attend(*tensors, **full_view, drop=DROP)
    right = attend(*tensors, **full_view, drop=DROP, implementation="reference")
    assert torch.equal(whole, right)
    for name in ("fused", "blockwise"):
        with pytest.raises(ValueError, match=f"'{name}' drops no weights; use 'reference'"):
            attend(*tensors, **given, drop=DROP, implementation=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_an_implementation_of_attend(dtype: torch.dtype) -> None:
    tensors = [each.detach().to(dtype) for each in inputs(40, 40)]
    score, visibility = make_score("scaled_dot", K, K), causal() & window(8, 0)
    wanted = attend(*tensors, score=score, visibility=visibility, implementation="reference")
    found = attend(*tensors, score=score, visibility=visibility, implementation="banded")
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("visibility", [full(), causal()])
def test_without_a_window_it_is_refused(visibility: Visibility) -> None:
    tensors = inputs(4, 4)
    with pytest.raises(ValueError, match="'banded' is for what looks through a window"):
        attend(
            *tensors,
            score=make_score("dot", K, K),
            visibility=visibility,
            implementation="banded",
        )


@pytest.mark.parametrize(
    ("implementation", "drop", "grows"),
    [
        ("banded", None, (1.0, 4.0)),
        ("banded", DROP, (1.0, 4.0)),
        ("blockwise", None, (1.0, 4.0)),
        ("reference", None, (12.0, 16.0)),
    ],
)
def test_memory_grows_with_the_text_and_not_with_its_square(
    implementation: Any,
    drop: Drop | None,
    grows: tuple[float, float],
    peak_of: Callable[[], Any],
) -> None:
    """Trap H4: four times the text; only who holds all weights takes sixteen times the bytes."""
    score, found = make_score("scaled_dot", 16, 16), []
    for n in (4096, 16_384) if implementation != "reference" else (512, 2048):
        parts = [torch.randn(1, 1, n, 16, requires_grad=True) for _ in range(3)]
        with peak_of() as peak:
            looks = causal() & window(15, 0)
            result = attend(
                *parts, score=score, visibility=looks, drop=drop, implementation=implementation
            )
            result.backward(torch.ones_like(result))
        found.append(peak.most)
    assert grows[0] < found[1] / found[0] < grows[1]
