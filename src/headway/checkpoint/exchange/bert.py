"""BERT's names and settings, as Hugging Face has them (`model_type` "bert")."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.names import Row, layers, linear, row
from headway.settings.model import EncoderSettings

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_ACTIVATIONS |= {"relu": "relu", "silu": "silu"}
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}
# The index of places is no weight; the two others are the embedding and the bias once more
IGNORED = re.compile(r"position_ids$|^cls\.predictions\.decoder\.(weight|bias)$")


def settings_of(config: Config) -> EncoderSettings:
    """What a config.json says. Raises UserError for what Headway does not compute."""
    config.need("position_embedding_type", "absolute", default="absolute")
    config.need("is_decoder", False, default=False)
    config.need("add_cross_attention", False, default=False)
    n_segments = config.take("type_vocab_size", int, 2)
    if n_segments < 1:
        raise UserError(
            f"'type_vocab_size' is {n_segments}; a BERT has segments", where=config.where
        )
    return config.settings(
        EncoderSettings,
        n_layers=config.take("num_hidden_layers", int),
        d_model=config.take("hidden_size", int),
        d_feed_forward=config.take("intermediate_size", int),
        n_heads=config.take("num_attention_heads", int),
        feed_forward=config.choose("hidden_act", _ACTIVATIONS, default="gelu"),
        norm_eps=config.take("layer_norm_eps", float, 1e-12),
        max_length=config.take("max_position_embeddings", int, 512),
        n_segments=n_segments,
        dropout=config.take("hidden_dropout_prob", float, 0.1),
        attention_dropout=config.take("attention_probs_dropout_prob", float, 0.1),
    )


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


def pooler() -> list[Row]:
    """The rows of the pooler."""
    return linear("pooler", "pooler.dense")


def masked_head() -> list[Row]:
    """The rows of `MaskedHead`, whose matrix is the token embedding."""
    return [
        *linear("masked.transform", "cls.predictions.transform.dense"),
        *linear("masked.norm", "cls.predictions.transform.LayerNorm"),
        row("masked.output.bias", "cls.predictions.bias"),
    ]


def named_today(name: str) -> str:
    """The name of a tensor in files of today: in the first ones norms had TensorFlow's."""
    stem, _, last = name.rpartition(".")
    is_old = stem.endswith("LayerNorm") and last in _OLD_NAMES
    return f"{stem}.{_OLD_NAMES[last]}" if is_old else name


def without_idle_pooler(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """The tensors without a pooler that no head reads, as transformers up to 3.4 wrote it beside
    the masked head; that is said.
    """
    idle = [name for name in tensors if name.startswith("pooler.")]
    follows = any(name.startswith("cls.seq_relationship.") for name in tensors)
    if not idle or follows or "cls.predictions.bias" not in tensors:
        return dict(tensors)
    warnings.warn(
        f"{where}: its pooler is not taken: without cls.seq_relationship nothing reads it",
        stacklevel=4,
    )
    return {name: tensor for name, tensor in tensors.items() if name not in idle}


def n_classes(config: Config, tensors: Mapping[str, Tensor], architecture: str) -> int | None:
    """How many outputs a folder's classifier has, None if it has none.

    Raises UserError for one that is not on the pooled state of a text, or does not choose one
    class or give one number.
    """
    head = tensors.get("classifier.weight")
    if head is None:
        return None
    names = config.table.get("architectures")
    if names and not (isinstance(names, list) and architecture in names):
        raise UserError(
            f"'architectures' is {names!r}; the classifier that Headway has is {architecture}'s",
            where=config.where,
            todo="this model cannot be imported",
        )
    if "pooler.dense.weight" not in tensors:
        what = "a classifier without a pooler, whose state Headway's classifiers read"
        raise UserError(what, where=config.where, todo="this model cannot be imported")
    n = head.shape[0]
    kind = config.take("problem_type", str, "")
    if kind not in ("", "regression" if n == 1 else "single_label_classification"):
        raise UserError(
            f"'problem_type' is {kind!r} with {n} outputs; Headway's classifiers choose one of "
            "several classes, or give one number",
            where=config.where,
            todo="this model cannot be imported",
        )
    return n


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
