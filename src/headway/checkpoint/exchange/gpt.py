"""GPT-1's and GPT-2's names and settings, as Hugging Face has them ("openai-gpt", "gpt2")."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.names import Form, Row, layers, linear, row
from headway.settings.model import DecoderSettings

_GPT2 = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}
_GPT2 |= {"relu": "relu", "silu": "silu"}
_GPT1 = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}  # its gelu is tanh's
# Masks that old files hold
IGNORED = re.compile(r"\.attn\.(bias|masked_bias)$|^lm_head\.weight$|^tokens_embed\.position_ids$")
_CONV = Form(transposed=True)  # they multiply x W where torch multiplies x Wᵀ


def gpt2_settings(config: Config) -> DecoderSettings:
    """What GPT-2's config.json says. Raises UserError for what Headway does not compute."""
    config.need("scale_attn_weights", True, default=True)
    config.need("scale_attn_by_inverse_layer_idx", False, default=False)
    config.need("add_cross_attention", False, default=False)
    inner = config.take("n_inner", int, 4 * config.take("n_embd", int))
    return _settings(
        config,
        order="pre",
        d_feed_forward=inner,
        feed_forward=config.choose("activation_function", _GPT2, default="gelu_new"),
        tie="output" if config.take("tie_word_embeddings", bool, True) else "none",
    )


def gpt1_settings(config: Config) -> DecoderSettings:
    """What GPT-1's config.json says. Raises UserError for what Headway does not compute."""
    return _settings(
        config,
        order="post",
        d_feed_forward=4 * config.take("n_embd", int),
        feed_forward=config.choose("afn", _GPT1, default="gelu"),
    )


def gpt2_config(settings: DecoderSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of a decoder with these settings."""
    return {
        **_config(settings, *sizes),
        "model_type": "gpt2",
        "n_inner": settings.d_feed_forward,
        "activation_function": _named(_GPT2, settings),
        "tie_word_embeddings": settings.tie == "output",
    }


def gpt1_config(settings: DecoderSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of a decoder with these settings."""
    config = _config(settings, *sizes)
    return {**config, "model_type": "openai-gpt", "afn": _named(_GPT1, settings)}


def gpt2_body(settings: DecoderSettings) -> list[Row]:
    """The rows of `Decoder`, without its head."""
    return [
        row("embedding.tokens.weight", "wte.weight"),
        row("embedding.positions.weight", "wpe.weight"),
        *layers(_layer(), settings.n_layers),
        *linear("stack.final_norm", "ln_f"),
    ]


def gpt1_body(settings: DecoderSettings) -> list[Row]:
    """The rows of `Decoder`, without its head."""
    return [
        row("embedding.tokens.weight", "tokens_embed.weight"),
        row("embedding.positions.weight", "positions_embed.weight"),
        *layers(_layer(), settings.n_layers),
    ]


def _settings(config: Config, **own: Any) -> DecoderSettings:
    return config.settings(
        DecoderSettings,
        n_layers=config.take("n_layer", int),
        d_model=config.take("n_embd", int),
        n_heads=config.take("n_head", int),
        positions="learned",
        max_length=config.take("n_positions", int),
        norm_eps=config.take("layer_norm_epsilon", float, 1e-5),
        dropout=config.take("resid_pdrop", float, 0.1),
        attention_dropout=config.take("attn_pdrop", float, 0.1),
        activation_dropout=0.0,
        **own,
    )


def _config(settings: DecoderSettings, *sizes: int) -> dict[str, Any]:
    return {
        "vocab_size": sizes[0],
        "n_layer": settings.n_layers,
        "n_embd": settings.d_model,
        "n_head": settings.n_heads,
        "n_positions": settings.max_length,
        "layer_norm_epsilon": settings.norm_eps,
        "resid_pdrop": settings.dropout,
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.attention_dropout,
    }


def _named(names: dict[str, str], settings: DecoderSettings) -> str | None:
    return {ours: theirs for theirs, ours in reversed(names.items())}.get(settings.feed_forward)


def _layer() -> list[Row]:
    ours, theirs = "stack.layers.{}", "h.{}"

    def conv(names: tuple[str, ...], of: str) -> list[Row]:
        return [
            row(tuple(f"{ours}.{name}.{part}" for name in names), f"{theirs}.{of}.{part}", _CONV)
            for part in ("weight", "bias")
        ]

    parts: Callable[[str], str] = "attention.to_{}".format
    return [
        *linear(f"{ours}.around_attention.norm", f"{theirs}.ln_1"),
        *conv((parts("query"), parts("key"), parts("value")), "attn.c_attn"),
        *conv((parts("output"),), "attn.c_proj"),
        *linear(f"{ours}.around_feed_forward.norm", f"{theirs}.ln_2"),
        *conv(("feed_forward.up",), "mlp.c_fc"),
        *conv(("feed_forward.down",), "mlp.c_proj"),
    ]
