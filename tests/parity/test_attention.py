"""Attention, blocks, stacks and the whole Transformer against torch.nn, with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.models.build import build
from headway.models.seq2seq import Transformer
from headway.nn.attend import attend
from headway.nn.attention import Attention
from headway.nn.block import Memory
from headway.nn.scores import make_score
from headway.nn.stack import Stack
from headway.nn.visibility import Visibility, causal, full, padding
from headway.settings.model import StackSettings, TransformerSettings

B, T, S, D, H, FEED = 2, 4, 5, 8, 2, 12
REAL = torch.tensor([[True] * S, [True, True, True, False, False]])
LAYOUT: dict[str, Any] = {"d_model": D, "n_heads": H, "d_feed_forward": FEED, "dropout": 0.0}


def randomise(module: nn.Module) -> None:
    """Weights, gains and biases that are all different from where they begin."""
    torch.manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, mean=0.1, std=0.4)


def attention_weights(ours: Attention, prefix: str) -> dict[str, Tensor]:
    parts = (ours.to_query, ours.to_key, ours.to_value)
    return {
        f"{prefix}in_proj_weight": torch.cat([part.weight for part in parts]),
        f"{prefix}in_proj_bias": torch.cat([part.bias for part in parts]),
        f"{prefix}out_proj.weight": ours.to_output.weight,
        f"{prefix}out_proj.bias": ours.to_output.bias,
    }


def stack_weights(ours: Stack, crosses: bool) -> dict[str, Tensor]:
    """The weights of a stack under the names of torch's encoder or decoder."""
    found = {}
    for index, block in enumerate(ours.layers):
        prefix = f"layers.{index}."
        norms = [block.around_attention.norm, block.around_feed_forward.norm]
        found |= attention_weights(block.attention, f"{prefix}self_attn.")
        if crosses:
            norms.insert(1, block.around_cross_attention.norm)
            found |= attention_weights(block.cross_attention, f"{prefix}multihead_attn.")
        modules = {"linear1": block.feed_forward.up, "linear2": block.feed_forward.down}
        modules |= {f"norm{number}": norm for number, norm in enumerate(norms, start=1)}
        for name, module in modules.items():
            found |= {f"{prefix}{name}.{key}": value for key, value in module.named_parameters()}
    return found | {f"norm.{key}": value for key, value in ours.final_norm.named_parameters()}


def torch_stack(ours: Stack, settings: StackSettings, *, crosses: bool) -> nn.Module:
    """torch's encoder or decoder with the weights of ours; loading is strict."""
    options = {
        "dropout": 0.0,
        "activation": settings.feed_forward,
        "batch_first": True,
        "norm_first": settings.order == "pre",
        "layer_norm_eps": settings.norm_eps,
    }
    norm = nn.LayerNorm(D, eps=settings.norm_eps) if settings.order == "pre" else None
    depth = len(ours.layers)
    if crosses:
        decoder_layer = nn.TransformerDecoderLayer(D, H, FEED, **options)
        theirs: nn.Module = nn.TransformerDecoder(decoder_layer, depth, norm)
    else:
        layer = nn.TransformerEncoderLayer(D, H, FEED, **options)
        theirs = nn.TransformerEncoder(layer, depth, norm, enable_nested_tensor=False)
    theirs.load_state_dict(stack_weights(ours, crosses))
    return theirs


def hidden_mask(length: int) -> Tensor:
    """torch's causal mask: True = may not look."""
    return torch.ones(length, length).triu(1).bool()


@pytest.mark.parametrize("implementation", ["reference", "fused"])
@pytest.mark.parametrize(
    ("visibility", "mask"),
    [
        (full(), None),
        (causal(), torch.ones(S, S).tril().bool()),
        (padding(REAL), REAL[:, None, None]),
        (causal() & padding(REAL), torch.ones(S, S).tril().bool() & REAL[:, None, None]),
    ],
    ids=["full", "causal", "padding", "both"],
)
@pytest.mark.parametrize("G", [4, 2])
def test_attend_equals_torch(
    G: int, visibility: Visibility, mask: Tensor | None, implementation: str
) -> None:
    torch.manual_seed(1)
    query, key, value = torch.randn(B, 4, S, 6), torch.randn(B, G, S, 6), torch.randn(B, G, S, 6)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
    score = make_score("scaled_dot", 6, 6)
    ours = attend(
        query, key, value, score=score, visibility=visibility, implementation=implementation
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask", ["none", "causal", "padding", "both"])
@pytest.mark.parametrize("crosses", [False, True])
def test_attention_equals_multihead_attention(crosses: bool, mask: str) -> None:
    ours = Attention(StackSettings(**LAYOUT))
    randomise(ours)
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    theirs.load_state_dict(attention_weights(ours, ""))
    hidden, other = torch.randn(B, S, D), torch.randn(B, S, D)
    looked = other if crosses else hidden
    visibility = full()
    if mask in ("causal", "both"):
        visibility = visibility & causal()
    if mask in ("padding", "both"):
        visibility = visibility & padding(REAL)
    seen: list[Tensor] = []
    ours.tap_weights.register_forward_hook(lambda module, given, found: seen.append(found))
    found = ours(hidden, ours.keys(looked, None), visibility=visibility, rotation=None, noise=None)
    wanted, weights = theirs(
        hidden,
        looked,
        looked,
        attn_mask=hidden_mask(S) if mask in ("causal", "both") else None,
        key_padding_mask=~REAL if mask in ("padding", "both") else None,
        average_attn_weights=False,
    )
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(seen[0], weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["post", "pre"])
def test_an_encoder_equals_torch(order: str, kind: str) -> None:
    settings = StackSettings(**LAYOUT, order=order, feed_forward=kind, norm_eps=1e-3)
    ours = Stack(settings, 2)
    randomise(ours)
    hidden = torch.randn(B, S, D)
    theirs = torch_stack(ours, settings, crosses=False)
    found, _ = ours(hidden, visibility=padding(REAL), positions=torch.arange(S))
    wanted = theirs(hidden, src_key_padding_mask=~REAL)
    torch.testing.assert_close(found[REAL], wanted[REAL], rtol=1e-4, atol=1e-5)
    slope = torch.randn(B, S, D) * REAL[..., None]
    (found * slope).sum().backward()
    (wanted * slope).sum().backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    for index, block in enumerate(ours.layers):
        for part, name in (
            (block.feed_forward.up, "linear1"),
            (block.feed_forward.down, "linear2"),
        ):
            right = gradients[f"layers.{index}.{name}.weight"]
            torch.testing.assert_close(part.weight.grad, right, rtol=1e-3, atol=1e-4)
        right = gradients[f"layers.{index}.self_attn.in_proj_weight"]
        torch.testing.assert_close(
            block.attention.to_query.weight.grad, right[:D], rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("kind", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["post", "pre"])
def test_a_decoder_equals_torch(order: str, kind: str) -> None:
    settings = StackSettings(**LAYOUT, order=order, feed_forward=kind)
    ours = Stack(settings, 2, crosses=True)
    randomise(ours)
    hidden, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    theirs = torch_stack(ours, settings, crosses=True)
    looks = padding(REAL)
    found, _ = ours(
        hidden,
        visibility=causal(),
        positions=torch.arange(T),
        memory=[Memory(keys, looks) for keys in ours.memory_keys(memory)],
    )
    wanted = theirs(hidden, memory, tgt_mask=hidden_mask(T), memory_key_padding_mask=~REAL)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["post", "pre"])
def test_the_whole_transformer_equals_torch(order: str) -> None:
    settings = TransformerSettings(
        **LAYOUT, n_encoder_layers=2, n_decoder_layers=3, order=order, tie="output"
    )
    ours = build(settings, n_source=11, n_target=13)
    assert isinstance(ours, Transformer)
    randomise(ours)
    theirs = nn.Transformer(
        D,
        H,
        custom_encoder=torch_stack(ours.encoder, settings, crosses=False),
        custom_decoder=torch_stack(ours.decoder, settings, crosses=True),
        batch_first=True,
    )
    theirs.encoder.load_state_dict(stack_weights(ours.encoder, crosses=False))  # drawn anew above
    theirs.decoder.load_state_dict(stack_weights(ours.decoder, crosses=True))
    source, target = torch.randint(0, 11, (B, S)), torch.randint(0, 13, (B, T))
    hidden = theirs(
        embed(ours.source_embedding.tokens.weight, source),
        embed(ours.target_embedding.tokens.weight, target),
        tgt_mask=hidden_mask(T),
        src_key_padding_mask=~REAL,
        memory_key_padding_mask=~REAL,
    )
    wanted = hidden @ ours.target_embedding.tokens.weight.T
    torch.testing.assert_close(ours(source, REAL, target), wanted, rtol=1e-4, atol=1e-4)


def embed(weight: Tensor, ids: Tensor) -> Tensor:
    """√D times the token's vector, plus the sinusoids, written once more (section 3.4, 3.5)."""
    place = torch.arange(ids.shape[1], dtype=torch.double)[:, None]
    pair = torch.arange(D) // 2
    angles = place / 10_000.0 ** (2 * pair / D)
    waves = torch.where(torch.arange(D) % 2 == 0, angles.sin(), angles.cos())
    return weight[ids] * D**0.5 + waves.float()
