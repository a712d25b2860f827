"""Laws of a stack under any visibility: packed documents, windows, grouped heads, a look inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.models.encoder_decoder import EncoderDecoder
from headway.nn.attention import Attention
from headway.nn.block import Memory
from headway.nn.scores import SCORES
from headway.nn.stack import Cache, Stack, row_positions, step_positions
from headway.nn.tap import Tap
from headway.nn.visibility import Visibility, causal, documents, full, padding, window
from headway.settings.model import StackSettings

D, T = 16, 7
ROWS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre-rotary-grouped": {"order": "pre", "positions": "rotary", "n_kv_heads": 2, "norm": "rms"},
    "bilinear": {"score": "bilinear", "n_kv_heads": 1},
    "dot-rotary": {"score": "dot", "positions": "rotary"},
    "additive": {"score": "additive", "order": "pre", "feed_forward": "swiglu"},
}


def stack(row: str, **options: Any) -> Stack:
    torch.manual_seed(0)
    layout = {"d_model": D, "d_feed_forward": 20, "n_heads": 4, "dropout": 0.0}
    made = Stack(StackSettings(**layout | ROWS[row]), 2, **options)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn(weight.shape), alpha=0.15)
    return made


def run(layers: Stack, hidden: Tensor, visibility: Visibility) -> Tensor:
    positions = torch.arange(hidden.shape[1])
    return layers(hidden, visibility=visibility, positions=positions)[0]


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


ALL_ROWS = pytest.mark.parametrize("row", ROWS)


@ALL_ROWS
@pytest.mark.parametrize("rule", [full, causal])
def test_packed_documents_are_the_documents_apart(row: str, rule: Any) -> None:
    layers = stack(row)
    hidden = torch.randn(1, 5, D, requires_grad=True)
    numbers, positions = torch.tensor([[0, 0, 0, 1, 1]]), torch.tensor([[0, 1, 2, 0, 1]])
    packed, _ = layers(hidden, visibility=documents(numbers) & rule(), positions=positions)
    apart = torch.cat([run(layers, part, rule()) for part in hidden.split([3, 2], dim=1)], dim=1)
    close(packed, apart)
    slope = torch.randn(1, 5, D)
    gradients = [
        torch.autograd.grad((found * slope).sum(), [hidden, *layers.parameters()])
        for found in (packed, apart)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@ALL_ROWS
@torch.no_grad()
def test_a_document_does_not_hear_of_another(row: str) -> None:
    layers, hidden = stack(row), torch.randn(1, 5, D)
    visibility = documents(torch.tensor([[0, 0, 0, 1, 1]])) & causal()
    other = torch.cat((torch.randn(1, 3, D), hidden[:, 3:]), dim=1)
    assert torch.equal(
        run(layers, other, visibility)[:, 3:], run(layers, hidden, visibility)[:, 3:]
    )


@ALL_ROWS
@torch.no_grad()
def test_a_window_as_wide_as_the_text_is_no_window(row: str) -> None:
    layers, hidden = stack(row), torch.randn(2, T, D)
    for width in (T - 1, T, 100):
        close(run(layers, hidden, window(width, width)), run(layers, hidden, full()))
        close(run(layers, hidden, causal() & window(width, 0)), run(layers, hidden, causal()))
    narrow = run(layers, hidden, causal() & window(1, 0))
    assert (narrow - run(layers, hidden, causal())).abs().max() > 1e-3


@ALL_ROWS
@pytest.mark.parametrize("sizes", [[1] * T, [3, 4], [2, 1, 4]])
@torch.no_grad()
def test_a_window_holds_with_a_cache_and_in_chunks(row: str, sizes: list[int]) -> None:
    layers, hidden = stack(row), torch.randn(2, T, D)
    real = torch.tensor([[True] * T, [False, False, *[True] * (T - 2)]])
    past: Cache | None = None
    found, start = [], 0
    for chunk in hidden.split(sizes, dim=1):
        seen = causal() & window(2, 0) & padding(real[:, : start + chunk.shape[1]])
        positions = step_positions(start, chunk.shape[1], hidden.device)
        result, past = layers(chunk, visibility=seen, positions=positions, past=past)
        found.append(result)
        start += chunk.shape[1]
        assert past.length == start
    wanted = run(layers, hidden, causal() & window(2, 0) & padding(real))
    close(torch.cat(found, dim=1), wanted)


@pytest.mark.parametrize("row", ["pre-rotary-grouped", "dot-rotary"])
@torch.no_grad()
def test_rotary_positions_count_by_their_distance_only(row: str) -> None:
    """Both queries and keys turn; what looks at a memory does not. So it is for dot products.

    A bilinear score stands between the two turns, an additive one is no product: with these the
    positions are absolute.
    """
    layers, hidden, memory = stack(row, crosses=True), torch.randn(2, T, D), torch.randn(2, 5, D)
    looked = [Memory(keys, full()) for keys in layers.memory_keys(memory)]

    def at(positions: Tensor) -> Tensor:
        return layers(hidden, visibility=causal(), positions=positions, memory=looked)[0]

    close(at(torch.arange(5, 5 + T)), at(torch.arange(T)))
    assert (at(2 * torch.arange(T)) - at(torch.arange(T))).abs().max() > 1e-3


@ALL_ROWS
@torch.no_grad()
def test_a_row_padded_on_the_left_is_the_row(row: str) -> None:
    """Its positions count from its own first real token."""
    layers, hidden = stack(row), torch.randn(1, 4, D)
    padded = torch.cat((torch.randn(1, 3, D), hidden), dim=1)
    real = torch.tensor([[False] * 3 + [True] * 4])
    assert row_positions(real).tolist() == [[0, 0, 0, 0, 1, 2, 3]]
    found, _ = layers(padded, visibility=causal() & padding(real), positions=row_positions(real))
    close(found[:, 3:], run(layers, hidden, causal()))


@ALL_ROWS
def test_a_stack_with_dead_queries_has_finite_values_and_gradients(row: str) -> None:
    layers = stack(row)
    hidden = torch.randn(2, T, D, requires_grad=True)
    real = torch.zeros(2, T).bool()
    real[0, 3:] = True
    result = run(layers, hidden, causal() & padding(real))
    result.sum().backward()
    assert result.isfinite().all()
    for tensor in (hidden, *layers.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("score", list(SCORES))
@torch.no_grad()
def test_grouped_heads_are_heads_with_copied_keys_and_values(score: str) -> None:
    """G = H is multi-head attention; fewer are heads whose keys and values are the same."""
    torch.manual_seed(0)
    rank = 3 if score in ("low_rank_bilinear", "additive") else None
    layout = {"d_model": D, "d_feed_forward": 20, "n_heads": 4, "score": score, "score_rank": rank}
    grouped = Attention(StackSettings(**layout, n_kv_heads=2))
    whole, named = (Attention(StackSettings(**layout, n_kv_heads=G)) for G in (None, 4))
    copied = dict(grouped.state_dict())
    for name, value in grouped.state_dict().items():
        if name.startswith(("to_key", "to_value")):
            heads = value.view(2, D // 4, *value.shape[1:]).repeat_interleave(2, dim=0)
            copied[name] = heads.flatten(0, 1)
        if score == "additive" and name == "score.key_weight":
            copied[name] = value.repeat_interleave(2, dim=0)
    whole.load_state_dict(copied)
    named.load_state_dict(copied)
    hidden = torch.randn(2, T, D)
    options: dict[str, Any] = {"visibility": causal(), "rotation": None, "noise": None}
    found = [each(hidden, each.keys(hidden, None), **options) for each in (grouped, whole, named)]
    close(found[0], found[1])
    assert torch.equal(found[1], found[2])
    assert grouped.keys(hidden, None).value.shape == (2, 2, T, D // 4)


@torch.no_grad()
def test_a_cache_selects_rows() -> None:
    layers, hidden = stack("post"), torch.randn(3, T, D)
    _, past = layers(hidden, visibility=causal(), positions=torch.arange(T))
    chosen = past.select(torch.tensor([2, 0]))
    for layer, before in zip(chosen.layers, past.layers, strict=True):
        assert torch.equal(layer.key, before.key[[2, 0]])
        assert torch.equal(layer.value, before.value[[2, 0]])
    assert chosen.length == T


@torch.no_grad()
def test_cross_attention_asks_a_memory_that_it_is_given() -> None:
    layers, hidden = stack("post", crosses=True), torch.randn(2, T, D)
    memory = torch.randn(2, 5, D)
    real = torch.tensor([[True] * 5, [True, True, False, False, False]])

    def cross(memory: Tensor) -> Tensor:
        looked = [Memory(keys, padding(real)) for keys in layers.memory_keys(memory)]
        return layers(hidden, visibility=causal(), positions=torch.arange(T), memory=looked)[0]

    other = memory.clone()
    other[1, 2:] += 1.0  # not real
    assert torch.equal(cross(other), cross(memory))
    other[1, 0] += 1.0
    assert not torch.allclose(cross(other)[1], cross(memory)[1])
    assert torch.equal(cross(other)[0], cross(memory)[0])


@torch.no_grad()
def test_a_look_at_the_weights_changes_no_logits(model: EncoderDecoder[Any, Any]) -> None:
    """Weights come on request, one tap each; rows sum to 1 over real keys, and none is hidden."""
    torch.manual_seed(0)
    source, target = torch.randint(0, 17, (2, 5)), torch.randint(0, 17, (2, 4))
    real = torch.tensor([[True] * 5, [True, True, False, False, False]])
    plain = model(source, real, target)
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    assert not any(tap.watched for tap in taps.values())
    seen: dict[str, Tensor] = {}
    hooks = [
        tap.register_forward_hook(
            lambda module, given, found, name=name: seen.update({name: found})
        )
        for name, tap in taps.items()
    ]
    found = model(source, real, target)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-5)
    if getattr(model, "score", "there") is None:
        assert not seen
    else:
        assert set(seen) == set(taps)
    for name, weights in seen.items():
        close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        if "decoder" not in name or "cross" in name:
            assert weights[1, ..., 2:].eq(0.0).all(), name  # padding
        else:
            assert weights.triu(1).eq(0.0).all(), name  # the future
    assert not any(tap.watched for tap in taps.values())
    assert torch.equal(model(source, real, target), plain)


def test_taps_have_no_name_in_a_checkpoint(model: EncoderDecoder[Any, Any]) -> None:
    assert not [name for name in model.state_dict() if "tap" in name]
