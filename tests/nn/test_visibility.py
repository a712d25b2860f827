"""Which keys a query may look at, against loops over positions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.nn.visibility import Visibility, causal, documents, full, padding, window

CPU = torch.device("cpu")


def places(visibility: Visibility, T: int, S: int) -> list[str]:
    """The mask of one row as text, a line a query: x = may look."""
    mask = visibility.mask(T, S, CPU)
    assert mask is not None
    assert mask.dtype == torch.bool
    assert mask.shape == (1, 1, T, S)
    return ["".join("x" if seen else "." for seen in line) for line in mask[0, 0].tolist()]


def test_rules_look_as_drawn() -> None:
    assert full().mask(2, 3, CPU) is None
    assert places(causal(), 3, 3) == ["x..", "xx.", "xxx"]
    assert places(window(0, 0), 3, 3) == ["x..", ".x.", "..x"]
    assert places(window(1, 2), 4, 4) == ["xxx.", "xxxx", ".xxx", "..xx"]
    assert places(window(2, 2, 2), 4, 4) == ["x.x.", ".x.x", "x.x.", ".x.x"]
    assert places(causal().within(2, 1, 2), 4, 4) == ["x...", "xx..", "x.x.", "xx.x"]
    assert places(causal() & window(1, 0), 4, 4) == ["x...", "xx..", ".xx.", "..xx"]
    numbers = torch.tensor([[0, 0, 1, 1]])
    assert places(documents(numbers), 4, 4) == ["xx..", "xx..", "..xx", "..xx"]
    assert places(documents(numbers) & causal(), 4, 4) == ["x...", "xx..", "..x.", "..xx"]
    real = torch.tensor([[True, True, False]])
    assert places(padding(real), 2, 3) == ["xx.", "xx."]


def test_queries_are_the_last_of_the_keys() -> None:
    """Causality by absolute position: with a cache the one new query sees all keys before it."""
    assert places(causal(), 1, 5) == ["xxxxx"]
    assert places(causal(), 2, 5) == ["xxxx.", "xxxxx"]
    assert places(window(1, 0), 1, 5) == ["...xx"]
    assert places(documents(torch.tensor([[0, 0, 1, 1, 1]])), 2, 5) == ["..xxx", "..xxx"]


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, int, list[tuple[str, object]]]:
    B, S = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    T = draw(st.integers(1, S))
    rows = st.lists(st.lists(st.integers(0, 2), min_size=S, max_size=S), min_size=B, max_size=B)
    rule = st.one_of(
        st.just(("causal", None)),
        st.tuples(st.just("window"), st.tuples(st.integers(0, 4), st.integers(0, 4))),
        st.tuples(st.just("padding"), rows),
        st.tuples(st.just("documents"), rows),
    )
    return B, T, S, draw(st.lists(rule, max_size=4))


def make(rules: list[tuple[str, object]]) -> Visibility:
    visibility = full()
    for name, value in rules:
        made = {
            "causal": lambda value: causal(),
            "window": lambda value: window(*value),
            "padding": lambda value: padding(torch.tensor(value) > 0),
            "documents": lambda value: documents(torch.tensor(value)),
        }[name](value)
        visibility = visibility & made
    return visibility


def sees(rules: list[tuple[str, object]], row: int, i: int, j: int) -> bool:
    """The conventions, said once more: i the query's absolute position, j the key's."""
    for name, value in rules:
        if name == "causal" and j > i:
            return False
        if name == "window" and not i - value[0] <= j <= i + value[1]:
            return False
        if name == "padding" and value[row][j] == 0:
            return False
        if name == "documents" and value[row][i] != value[row][j]:
            return False
    return True


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases())
def test_any_combination_is_the_rules_together(
    case: tuple[int, int, int, list[tuple[str, object]]],
) -> None:
    B, T, S, rules = case
    visibility = make(rules)
    wanted = torch.tensor(
        [[[sees(rules, row, S - T + t, s) for s in range(S)] for t in range(T)] for row in range(B)]
    )
    mask, made = visibility.mask(T, S, CPU), visibility.bias(T, S, CPU)
    if not rules:
        assert mask is None
        assert made is None
        return
    assert mask is not None
    assert torch.equal(mask[:, 0].expand(B, T, S), wanted)
    if T == 1 and rules == [("causal", None)]:
        assert wanted.all()
        assert made is None
        return
    assert made is not None
    bias, alive = (part[:, 0].expand(B, T, -1) for part in made)
    assert bias.dtype == alive.dtype == torch.float32
    assert torch.equal(alive[..., 0] == 1.0, wanted.any(dim=-1))
    living = alive[..., 0] == 1.0
    assert torch.equal(bias[living] == 0.0, wanted[living])
    assert bias[living][~wanted[living]].eq(-math.inf).all()
    assert bias[~living].eq(0.0).all()  # so that the softmax of a dead row is finite


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bfloat16])
def test_masks_of_numbers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match="boolean with True = may look"):
        padding(torch.ones(1, 3, dtype=dtype))


@pytest.mark.parametrize(("left", "right"), [(-1, 0), (0, -1)])
def test_a_window_does_not_reach_backwards(left: int, right: int) -> None:
    with pytest.raises(ValueError, match="1 or more apart, not 0"):
        window(1, 1, 0)
    with pytest.raises(ValueError, match="0 or more"):
        window(left, right)


def test_masks_are_made_once_a_shape() -> None:
    visibility = causal() & padding(torch.tensor([[True, False]]))
    first, again = visibility.bias(2, 2, CPU), visibility.bias(2, 2, CPU)
    assert first is not None
    assert again is not None
    assert first[0] is again[0]
    other = visibility.bias(1, 2, CPU)
    assert other is not None
    assert other[0].shape == (1, 1, 1, 2)


def test_a_mask_made_while_inferring_can_be_used_for_training() -> None:
    visibility = causal()
    with torch.inference_mode():
        visibility.bias(2, 2, CPU)
    scores = torch.randn(1, 1, 2, 2, requires_grad=True)
    made = visibility.bias(2, 2, CPU)
    assert made is not None
    ((scores + made[0]).softmax(dim=-1) * made[1]).square().sum().backward()
    assert scores.grad is not None


def test_only_causality_alone_does_without_a_mask() -> None:
    assert causal().is_causal_only
    for other in (full(), window(2, 0), causal() & window(2, 0), window(9, 9) & causal()):
        assert not other.is_causal_only
