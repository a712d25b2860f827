"""Marian's names and settings, as Hugging Face has them (`model_type` "marian").

Marian is the original Transformer (post-norm, sinusoidal positions) with a bias at the output. Its
sines stand in the first half of the width and its cosines in the second, where the paper's take
turns. A network does not mind if its width is permuted, so all that reads or writes the width is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.names import Form, Row, layers, linear, row
from headway.nn.positions import Sinusoidal
from headway.settings.model import TransformerSettings

_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# Sinusoidal positions are computed; the embeddings are one, and the projection is one of them
IGNORED = re.compile(r"embed_positions\.weight$|^lm_head\.weight$|coder\.embed_tokens\.weight$")


def settings_of(config: Config) -> TransformerSettings:
    """What a config.json says. Raises UserError for what Headway does not compute."""
    config.need("normalize_before", False, default=False)
    config.need("normalize_embedding", False, default=False)
    config.need("add_final_layer_norm", False, default=False)
    config.need("static_position_embeddings", True, default=True)
    config.need("tie_word_embeddings", True, default=True)
    shared = config.take("share_encoder_decoder_embeddings", bool, True)
    heads = config.take("encoder_attention_heads", int)
    config.need("decoder_attention_heads", heads, default=heads)
    inner = config.take("encoder_ffn_dim", int)
    config.need("decoder_ffn_dim", inner, default=inner)
    return config.settings(
        TransformerSettings,
        n_encoder_layers=config.take("encoder_layers", int),
        n_decoder_layers=config.take("decoder_layers", int),
        d_model=config.take("d_model", int),
        d_feed_forward=inner,
        n_heads=heads,
        feed_forward=config.choose("activation_function", _ACTIVATIONS, default="gelu"),
        max_length=config.take("max_position_embeddings", int, 1024),
        scale_embedding=config.take("scale_embedding", bool, False),
        head_bias=True,
        dropout=config.take("dropout", float, 0.1),
        attention_dropout=config.take("attention_dropout", float, 0.0),
        activation_dropout=config.take("activation_dropout", float, 0.0),
        tie="all" if shared else "output",
    )


def config_of(settings: TransformerSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of an encoder–decoder with these settings."""
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    return {
        "model_type": "marian",
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "encoder_layers": settings.n_encoder_layers,
        "decoder_layers": settings.n_decoder_layers,
        "d_model": settings.d_model,
        "encoder_ffn_dim": settings.d_feed_forward,
        "decoder_ffn_dim": settings.d_feed_forward,
        "encoder_attention_heads": settings.n_heads,
        "decoder_attention_heads": settings.n_heads,
        "activation_function": theirs.get(settings.feed_forward),
        "max_position_embeddings": settings.max_length,
        "scale_embedding": settings.scale_embedding,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.inner_dropout,
        "share_encoder_decoder_embeddings": settings.tie == "all",
        "tie_word_embeddings": True,
    }


def body(settings: TransformerSettings) -> list[Row]:
    """The rows of `Transformer`, without its head."""
    order = _halves(settings.d_model)
    reads, writes = Form(columns=order), Form(rows=order)
    source, target = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    embeddings = [
        row("source_embedding.tokens.weight", source, reads),
        row("target_embedding.tokens.weight", target, reads),
    ]
    if settings.tie == "all":
        embeddings = [row("source_embedding.tokens.weight", "shared.weight", reads)]
    return [
        *embeddings,
        *layers(_layer("encoder", reads, writes, crosses=False), settings.n_encoder_layers),
        *layers(_layer("decoder", reads, writes, crosses=True), settings.n_decoder_layers),
    ]


def head() -> list[Row]:
    """The row of the output's bias; its matrix is the target embedding."""
    return [row("head.bias", "final_logits_bias", Form(leading=True))]


def refuse_other_positions(tensors: Mapping[str, Tensor], D: int, where: str) -> None:
    """Raise UserError if positions that a file has written out are not the sinusoidal ones."""
    for name, found in tensors.items():
        if name.endswith("embed_positions.weight"):
            wanted = Sinusoidal(D)(torch.arange(len(found)))
            if found.shape != wanted.shape or not torch.allclose(
                found.float()[:, _halves(D)], wanted, atol=1e-3
            ):
                raise UserError(f"'{name}' are not sinusoidal positions", where=where)


def _halves(D: int) -> Tensor:
    """Where our place i, sines and cosines taking turns, stands with them: (D,)."""
    places = torch.arange(D)
    return torch.where(places % 2 == 0, places // 2, (D + 1) // 2 + places // 2)


def _layer(stack: str, reads: Form, writes: Form, *, crosses: bool) -> list[Row]:
    ours, theirs = f"{stack}.layers.{{}}", f"{stack}.layers.{{}}"
    attentions = {"attention": "self_attn"}
    if crosses:
        attentions["cross_attention"] = "encoder_attn"
    found = []
    for mine, other in attentions.items():
        for part in ("query", "key", "value"):
            name = f"{theirs}.{other}.{part[0]}_proj"
            found += linear(f"{ours}.{mine}.to_{part}", name, weight=reads)
        out, norm = f"{theirs}.{other}.out_proj", f"{theirs}.{other}_layer_norm"
        found += linear(f"{ours}.{mine}.to_output", out, weight=writes, of_bias=writes)
        found += linear(f"{ours}.around_{mine}.norm", norm, weight=writes, of_bias=writes)
    norm = f"{theirs}.final_layer_norm"
    return [
        *found,
        *linear(f"{ours}.feed_forward.up", f"{theirs}.fc1", weight=reads),
        *linear(f"{ours}.feed_forward.down", f"{theirs}.fc2", weight=writes, of_bias=writes),
        *linear(f"{ours}.around_feed_forward.norm", norm, weight=writes, of_bias=writes),
    ]
