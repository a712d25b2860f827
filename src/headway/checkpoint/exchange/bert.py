"""BERT's names and settings, as Hugging Face has them (`model_type` "bert")."""

from __future__ import annotations

import re
from typing import Any

from headway.base.errors import UserError
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.heads import Heads
from headway.checkpoint.exchange.names import Row, layers, linear, row
from headway.settings.model import EncoderSettings

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_ACTIVATIONS |= {"relu": "relu", "silu": "silu"}
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}
# The index of places is no weight; the two others are the embedding and the bias once more
IGNORED = re.compile(r"position_ids$|^cls\.predictions\.decoder\.(weight|bias)$")
HEADS = Heads(
    transform="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    bias="cls.predictions.bias",
    follows="cls.seq_relationship",
    classifier="classifier",
)


def settings_of(config: Config) -> EncoderSettings:
    """What a config.json says. Raises UserError for what Headway does not compute."""
    return config.settings(EncoderSettings, **fields(config))


def fields(config: Config) -> dict[str, Any]:
    """The settings that a config.json says, not yet checked against one another."""
    config.need("position_embedding_type", "absolute", default="absolute")
    config.need("is_decoder", False, default=False)
    config.need("add_cross_attention", False, default=False)
    n_segments = config.take("type_vocab_size", int, 2)
    if n_segments < 1:
        raise UserError(
            f"'type_vocab_size' is {n_segments}; a BERT has segments", where=config.where
        )
    return {
        "n_layers": config.take("num_hidden_layers", int),
        "d_model": config.take("hidden_size", int),
        "d_feed_forward": config.take("intermediate_size", int),
        "n_heads": config.take("num_attention_heads", int),
        "feed_forward": config.choose("hidden_act", _ACTIVATIONS, default="gelu"),
        "norm_eps": config.take("layer_norm_eps", float, 1e-12),
        "max_length": config.take("max_position_embeddings", int, 512),
        "n_segments": n_segments,
        "dropout": config.take("hidden_dropout_prob", float, 0.1),
        "attention_dropout": config.take("attention_probs_dropout_prob", float, 0.1),
        "activation_dropout": 0.0,
    }


def config_of(settings: EncoderSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of an encoder with these settings."""
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    return {
        "model_type": "bert",
        "vocab_size": sizes[0],
        "num_hidden_layers": settings.n_layers,
        "hidden_size": settings.d_model,
        "intermediate_size": settings.d_feed_forward,
        "num_attention_heads": settings.n_heads,
        "hidden_act": theirs.get(settings.feed_forward),
        "layer_norm_eps": settings.norm_eps,
        "max_position_embeddings": settings.max_length,
        "type_vocab_size": settings.n_segments,
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.attention_dropout,
    }


def body(settings: EncoderSettings) -> list[Row]:
    """The rows of `Encoder`, without its pooler."""
    return [
        row("embedding.tokens.weight", "embeddings.word_embeddings.weight"),
        row("embedding.positions.weight", "embeddings.position_embeddings.weight"),
        row("embedding.segments.weight", "embeddings.token_type_embeddings.weight"),
        *linear("embedding.norm", "embeddings.LayerNorm"),
        *layers(_layer(), settings.n_layers),
    ]


def named_today(name: str) -> str:
    """The name of a tensor in files of today: in the first ones norms had TensorFlow's."""
    stem, _, last = name.rpartition(".")
    is_old = stem.endswith("LayerNorm") and last in _OLD_NAMES
    return f"{stem}.{_OLD_NAMES[last]}" if is_old else name


def _layer() -> list[Row]:
    ours, theirs = "stack.layers.{}", "encoder.layer.{}"
    return [
        *linear(f"{ours}.attention.to_query", f"{theirs}.attention.self.query"),
        *linear(f"{ours}.attention.to_key", f"{theirs}.attention.self.key"),
        *linear(f"{ours}.attention.to_value", f"{theirs}.attention.self.value"),
        *linear(f"{ours}.attention.to_output", f"{theirs}.attention.output.dense"),
        *linear(f"{ours}.around_attention.norm", f"{theirs}.attention.output.LayerNorm"),
        *linear(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense"),
        *linear(f"{ours}.feed_forward.down", f"{theirs}.output.dense"),
        *linear(f"{ours}.around_feed_forward.norm", f"{theirs}.output.LayerNorm"),
    ]
