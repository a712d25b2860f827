"""Named rows of model settings. A preset is data: no class and no branch knows its name."""

from __future__ import annotations

from typing import Any

from headway.base.errors import unknown


def _transformer(layers: int, width: int, feed_forward: int, heads: int, dropout: float) -> Any:
    """Vaswani et al. 2017, section 3."""
    return {
        "kind": "transformer",
        "n_encoder_layers": layers,
        "n_decoder_layers": layers,
        "d_model": width,
        "d_feed_forward": feed_forward,
        "n_heads": heads,
        "dropout": dropout,
    }


def _bert(layers: int, width: int) -> Any:
    """Devlin et al. 2019, section 3: heads of 64, a feed-forward part of four widths."""
    return {
        "kind": "encoder",
        "n_layers": layers,
        "d_model": width,
        "d_feed_forward": 4 * width,
        "n_heads": width // 64,
        "norm_eps": 1e-12,
        "attention_dropout": 0.1,
        "activation_dropout": 0.0,
    }


def _roberta(layers: int, width: int, max_length: int, **own: Any) -> Any:
    """Liu et al. 2019 (arXiv 1907.11692): a BERT without segments and next sentences."""
    row = _bert(layers, width) | {"norm_eps": 1e-5, "n_segments": 1, "pooler": False}
    return row | {"max_length": max_length, **own}


def _gpt(layers: int, width: int, max_length: int, order: str) -> Any:
    """Radford et al. 2018 (post-norm) and 2019 (pre-norm): heads of 64, GELU by its tanh."""
    return {
        "kind": "decoder",
        "n_layers": layers,
        "d_model": width,
        "d_feed_forward": 4 * width,
        "n_heads": width // 64,
        "feed_forward": "gelu_tanh",
        "positions": "learned",
        "order": order,
        "max_length": max_length,
        "attention_dropout": 0.1,
        "activation_dropout": 0.0,
    }


def _llama(layers: int, width: int, feed_forward: int, heads: int, **own: Any) -> Any:
    """Touvron et al. 2023: pre-norm by rms, SwiGLU, rotary positions, no biases, no dropout."""
    return {
        "kind": "decoder",
        "n_layers": layers,
        "d_model": width,
        "d_feed_forward": feed_forward,
        "n_heads": heads,
        "bias": False,
        "norm": "rms",
        "order": "pre",
        "feed_forward": "swiglu",
        "positions": "rotary",
        "dropout": 0.0,
        **own,
    }


def _stretched(factor: float) -> Any:
    """Llama 3.1's positions: rotary ones stretched from 8,192 to 131,072 tokens."""
    scaling = {"factor": factor, "original_max_length": 8192}
    return {"rotary_theta": 500_000.0, "rotary_scaling": scaling, "max_length": 131_072}


PRESETS: dict[str, dict[str, Any]] = {
    # Vaswani et al. 2017, table 3
    "transformer-base": _transformer(6, 512, 2048, 8, 0.1),
    "transformer-big": _transformer(6, 1024, 4096, 16, 0.3),
    # Wu et al. 2021 (arXiv 2105.14462), the "Tiny" configuration for Multi30k
    "transformer-tiny": _transformer(4, 128, 256, 4, 0.3),
    # Devlin et al. 2019; the small ones: Turc et al. 2019 (arXiv 1908.08962), table 1
    "bert-tiny": _bert(2, 128),
    "bert-mini": _bert(4, 256),
    "bert-small": _bert(4, 512),
    "bert-medium": _bert(8, 512),
    "bert-base": _bert(12, 768),
    "bert-large": _bert(24, 1024),
    # Beltagy et al. 2020 (arXiv 2004.05150), section 5: a RoBERTa with windows of 512
    "longformer-base": _roberta(12, 768, 4096, reach=[512], n_global=1),
    "longformer-large": _roberta(24, 1024, 4096, reach=[512], n_global=1),
    # Wang et al. 2020 (arXiv 2006.04768), section 5: a RoBERTa with 256 keys, one matrix for all
    "linformer-base": _roberta(12, 768, 512, n_keys=256, mixes="layers"),
    # Radford et al. 2018
    "gpt1": _gpt(12, 768, 512, "post"),
    # Radford et al. 2019, table 2
    "gpt2": _gpt(12, 768, 1024, "pre"),
    "gpt2-medium": _gpt(24, 1024, 1024, "pre"),
    "gpt2-large": _gpt(36, 1280, 1024, "pre"),
    "gpt2-xl": _gpt(48, 1600, 1024, "pre"),
    # Touvron et al. 2023 (arXiv 2307.09288)
    "llama-2-7b": _llama(32, 4096, 11008, 32, tie="none", max_length=4096),
    "llama-2-13b": _llama(40, 5120, 13824, 40, tie="none", max_length=4096),
    "llama-2-70b": _llama(80, 8192, 28672, 64, n_kv_heads=8, tie="none", max_length=4096),
    # Dubey et al. 2024 (arXiv 2407.21783), table 3, and the model cards of Llama 3.2
    "llama-3.1-8b": _llama(32, 4096, 14336, 32, n_kv_heads=8, tie="none", **_stretched(8.0)),
    "llama-3.1-70b": _llama(80, 8192, 28672, 64, n_kv_heads=8, tie="none", **_stretched(8.0)),
    "llama-3.1-405b": _llama(126, 16384, 53248, 128, n_kv_heads=8, tie="none", **_stretched(8.0)),
    "llama-3.2-1b": _llama(16, 2048, 8192, 32, n_kv_heads=8, **_stretched(32.0)),
    "llama-3.2-3b": _llama(28, 3072, 8192, 24, n_kv_heads=8, **_stretched(32.0)),
    # Ben Allal et al. 2025 (arXiv 2502.02737)
    "smollm2-135m": _llama(30, 576, 1536, 9, n_kv_heads=3, rotary_theta=100_000.0, max_length=8192),
    "smollm2-360m": _llama(
        32, 960, 2560, 15, n_kv_heads=5, rotary_theta=100_000.0, max_length=8192
    ),
    "smollm2-1.7b": _llama(24, 2048, 8192, 32, rotary_theta=130_000.0, max_length=8192),
}

# How many ids each was published with: what its parameters and operations are counted with.
VOCABULARIES: dict[str, int] = {
    "transformer-base": 37_000,  # section 5.1: about so many, English and German
    "transformer-big": 37_000,
    "transformer-tiny": 10_000,  # as the recipe multi30k/transformer-tiny
    **dict.fromkeys((name for name in PRESETS if name.startswith("bert-")), 30_522),
    **dict.fromkeys(("longformer-base", "longformer-large", "linformer-base"), 50_265),
    "gpt1": 40_478,
    **dict.fromkeys(("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"), 50_257),
    **dict.fromkeys(("llama-2-7b", "llama-2-13b", "llama-2-70b"), 32_000),
    **dict.fromkeys(("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b"), 128_256),
    **dict.fromkeys(("llama-3.2-1b", "llama-3.2-3b"), 128_256),
    **dict.fromkeys(("smollm2-135m", "smollm2-360m", "smollm2-1.7b"), 49_152),
}


def expand_preset(table: dict[str, Any], *, where: str) -> dict[str, Any]:
    """A model table with its `preset` replaced by that row; its own keys win.

    Raises UserError for an unknown preset, naming the nearest.
    """
    if "preset" not in table:
        return table
    own = {key: value for key, value in table.items() if key != "preset"}
    name = str(table["preset"])
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS, where=f"{where}, model.preset")
    return {**PRESETS[name], **own}
