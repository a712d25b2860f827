"""Llama's names and settings, as Hugging Face has them (`model_type` "llama"), and Mistral's.

Mistral (Jiang et al., 2023, arXiv 2310.06825) is a Llama whose layers have a window ("mistral").
"""

from __future__ import annotations

import re
from typing import Any

from headway.base.errors import UserError
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.names import Row, layers, linear, row
from headway.settings.model import DecoderSettings

# Angles that old files hold, which we compute; a head that is the embedding once more
IGNORED = re.compile(r"rotary_emb\.inv_freq$|^lm_head\.weight$")


# What Mistral's config.json leaves out
_MISTRAL = {
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096 * 32,
    "sliding_window": 4096,
}


def settings_of(config: Config, reach: tuple[int, ...] = (0,)) -> DecoderSettings:
    """What a config.json says. Raises UserError for what Headway does not compute."""
    config.need("hidden_act", "silu", default="silu")
    config.need("pretraining_tp", 1, default=1)
    theta, scaling = _positions(config)
    return config.settings(
        DecoderSettings,
        n_layers=config.take("num_hidden_layers", int),
        d_model=config.take("hidden_size", int),
        d_feed_forward=config.take("intermediate_size", int),
        n_heads=(n_heads := config.take("num_attention_heads", int)),
        n_kv_heads=config.take("num_key_value_heads", int, n_heads),
        d_head=config.take("head_dim", int, config.take("hidden_size", int) // max(1, n_heads)),
        bias=config.take("mlp_bias", bool, False),
        attention_bias=config.take("attention_bias", bool, False),
        norm="rms",
        norm_eps=config.take("rms_norm_eps", float, 1e-6),
        order="pre",
        feed_forward="swiglu",
        positions="rotary",
        rotary_theta=theta,
        rotary_scaling=scaling,
        max_length=config.take("max_position_embeddings", int, 2048),
        dropout=0.0,
        attention_dropout=config.take("attention_dropout", float, 0.0),
        tie="output" if config.take("tie_word_embeddings", bool, False) else "none",
        reach=reach,
    )


def mistral_settings(config: Config) -> DecoderSettings:
    """What Mistral's config.json says. Raises UserError for what Headway does not compute."""
    config = Config({**_MISTRAL, **config.table}, config.where)
    config.need("attention_bias", False, default=False)
    config.need("mlp_bias", False, default=False)
    config.need("layer_types", None, default=None)
    width = config.take("sliding_window", int, 0)
    if width < 1 and config.table["sliding_window"] is not None:
        raise UserError(f"'sliding_window' is {width}", where=config.where)
    return settings_of(config, reach=(width,))


def mistral_config(settings: DecoderSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of a decoder with these settings, all layers of which have one window."""
    own = {"model_type": "mistral", "sliding_window": settings.reach[0] or None}
    return {**config_of(settings, *sizes), **own}


def config_of(settings: DecoderSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of a decoder with these settings."""
    rotary: dict[str, Any] = {"rope_type": "default", "rope_theta": settings.rotary_theta}
    if (scaling := settings.rotary_scaling) is not None:
        rotary |= {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_frequency,
            "high_freq_factor": scaling.high_frequency,
            "original_max_position_embeddings": scaling.original_max_length,
        }
    return {
        "model_type": "llama",
        "vocab_size": sizes[0],
        "num_hidden_layers": settings.n_layers,
        "hidden_size": settings.d_model,
        "intermediate_size": settings.d_feed_forward,
        "num_attention_heads": settings.n_heads,
        "num_key_value_heads": settings.kv_heads,
        "head_dim": settings.head_width,
        "hidden_act": "silu",
        "attention_bias": settings.biases_attention,
        "mlp_bias": settings.bias,
        "rms_norm_eps": settings.norm_eps,
        "rope_parameters": rotary,
        # the names of the same before transformers 5
        "rope_theta": settings.rotary_theta,
        "rope_scaling": rotary if settings.rotary_scaling is not None else None,
        "max_position_embeddings": settings.max_length,
        "attention_dropout": settings.attention_dropout,
        "tie_word_embeddings": settings.tie == "output",
    }


def body(settings: DecoderSettings) -> list[Row]:
    """The rows of `Decoder`, without its head."""
    return [
        row("embedding.tokens.weight", "embed_tokens.weight"),
        *layers(_layer(settings), settings.n_layers),
        row("stack.final_norm.weight", "norm.weight"),
    ]


def _positions(config: Config) -> tuple[float, dict[str, Any] | None]:
    """θ and the scaling: in a table of their own since transformers 5, beside the rest before."""
    table = config.table.get("rope_parameters") or config.table.get("rope_scaling") or {}
    if not isinstance(table, dict):
        raise UserError("the rotary positions' settings are not a table", where=config.where)
    rotary = Config({"rope_type": table.get("type"), **table}, config.where)
    theta = rotary.take("rope_theta", float, config.take("rope_theta", float, 10_000.0))
    if rotary.need("rope_type", "default", "llama3", None, default=None) != "llama3":
        return theta, None
    return theta, {
        "factor": rotary.take("factor", float),
        "low_frequency": rotary.take("low_freq_factor", float),
        "high_frequency": rotary.take("high_freq_factor", float),
        "original_max_length": rotary.take("original_max_position_embeddings", int),
    }


def _layer(settings: DecoderSettings) -> list[Row]:
    ours, theirs = "stack.layers.{}", "layers.{}"
    attention = {
        "attention.to_query": "self_attn.q_proj",
        "attention.to_key": "self_attn.k_proj",
        "attention.to_value": "self_attn.v_proj",
        "attention.to_output": "self_attn.o_proj",
    }
    feed_forward = {
        "feed_forward.gate": "mlp.gate_proj",
        "feed_forward.up": "mlp.up_proj",
        "feed_forward.down": "mlp.down_proj",
    }
    norms = {
        "around_attention.norm": "input_layernorm",
        "around_feed_forward.norm": "post_attention_layernorm",
    }
    found = []
    for names, bias in (
        (attention, settings.biases_attention),
        (feed_forward, settings.bias),
        (norms, False),
    ):
        for mine, other in names.items():
            found += linear(f"{ours}.{mine}", f"{theirs}.{other}", bias=bias)
    return found
