"""Llama's and GPT-2's names and settings in GGUF files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError, unknown
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.names import SAME, Form, Row, layers, linear, row, to_ours
from headway.checkpoint.weights import adopt, on_meta
from headway.models.decoder import Decoder
from headway.nn.dropout import number_places
from headway.nn.positions import Rotary
from headway.settings.base import parse
from headway.settings.model import DecoderSettings, RotaryScaling

FACTORS = "rope_freqs.weight"
# llama.cpp reads it, and computes with it for another kind of scaling only
ORIGINAL_LENGTH = "llama.rope.scaling.original_context_length"
_LENGTH_OF_LLAMA_3 = 8192  # what files mean that do not say it
IGNORED = re.compile(rf"^{re.escape(FACTORS)}$")


@dataclass(frozen=True)
class Architecture:
    """A `general.architecture`: its settings, and its names."""

    settings: Callable[[Config, str], dict[str, Any]]
    rows: Callable[[DecoderSettings], list[Row]]


def read_gguf_model(file: GGUF) -> tuple[Decoder, DecoderSettings]:
    """The model of a GGUF file, in float32, and its settings.

    Raises UserError for an architecture that Headway lacks, a value that it does not compute, and
    tensors that are missing, left over or of another shape.
    """
    where = str(file.path)
    config = Config(file.metadata, where)
    name = config.take("general.architecture", str)
    if name not in ARCHITECTURES:
        raise unknown("architecture", name, ARCHITECTURES, where=where)
    architecture = ARCHITECTURES[name]
    table = architecture.settings(config, name)
    table["tie"] = "none" if "output.weight" in file.tensors else "output"
    settings = parse(DecoderSettings, table, where=where)
    if FACTORS in file.tensors:
        _refuse_other_width(settings, file.tensors[FACTORS].shape, where)
        length = config.take(ORIGINAL_LENGTH, int, _LENGTH_OF_LLAMA_3)
        scaling = scaling_of(settings, file.tensor(FACTORS), length, where)
        settings = settings.model_copy(update={"rotary_scaling": scaling})
    n_tokens = _n_tokens(file)
    sizes = [math.prod(stored.shape) for stored in file.tensors.values()]
    model = on_meta(lambda: Decoder(settings, n_tokens), settings.n_layers, sizes, where=where)
    rows = architecture.rows(settings)
    if settings.tie == "none":
        rows.append(row("head.weight", "output.weight"))
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    for name in file.tensors:  # before memory is taken for any
        file.check(name)
    theirs = {name: stored.shape for name, stored in file.tensors.items()}
    adopt(model, to_ours(rows, theirs, file.tensor, shapes, ignored=IGNORED, where=where))
    number_places(model)
    return model.eval(), settings


def _n_tokens(file: GGUF) -> int:
    """V: the rows of the embedding."""
    stored = file.tensors.get("token_embd.weight")
    if stored is None:
        raise UserError("there is no 'token_embd.weight'", where=str(file.path))
    return stored.shape[0]


def _common(config: Config, name: str, eps: str) -> dict[str, Any]:
    return {
        "n_layers": config.take(f"{name}.block_count", int),
        "d_model": config.take(f"{name}.embedding_length", int),
        "d_feed_forward": config.take(f"{name}.feed_forward_length", int),
        "n_heads": config.take(f"{name}.attention.head_count", int),
        "max_length": config.take(f"{name}.context_length", int),
        "norm_eps": _decimal(config.take(f"{name}.attention.{eps}", float)),
        "order": "pre",
        "dropout": 0.0,
    }


def _decimal(value: float) -> float:
    """The short decimal that a float32 stands for: 1e-05, not 9.999999747378752e-06."""
    return float(f"{value:.7g}")


def _gpt2(config: Config, name: str) -> dict[str, Any]:
    common = _common(config, name, "layer_norm_epsilon")
    return common | {"feed_forward": "gelu_tanh", "positions": "learned"}


def _llama(config: Config, name: str) -> dict[str, Any]:
    common = _common(config, name, "layer_norm_rms_epsilon")
    config.need(f"{name}.expert_count", 0, default=0)
    config.need(f"{name}.rope.scaling.type", "none", default="none")
    for key in ("rope.scaling.factor", "rope.scale_linear"):
        config.need(f"{name}.{key}", 0.0, 1.0, default=1.0)
    config.need(f"{name}.attention.causal", True, default=True)
    each = common["d_model"] // max(1, common["n_heads"])
    width = config.take(f"{name}.attention.key_length", int, each)
    config.need(f"{name}.attention.value_length", width, default=width)
    config.need(f"{name}.rope.dimension_count", width, default=width)
    return common | {
        "n_kv_heads": config.take(f"{name}.attention.head_count_kv", int, common["n_heads"]),
        "d_head": width,
        "bias": False,
        "norm": "rms",
        "feed_forward": "swiglu",
        "positions": "rotary",
        "rotary_theta": _decimal(config.take(f"{name}.rope.freq_base", float, 10_000.0)),
    }


def _refuse_other_width(settings: DecoderSettings, shape: Sequence[int], where: str) -> None:
    """Raise UserError unless there is a factor for each pair, before they are read."""
    if settings.positions != "rotary" or tuple(shape) != (settings.head_width // 2,):
        raise UserError(f"'{FACTORS}' is {tuple(shape)}, not one number a pair", where=where)


def factors_of(settings: DecoderSettings, scaling: RotaryScaling) -> Tensor:
    """How many times more slowly each pair turns than without the scaling: (K/2,)."""
    plain, scaled = (
        Rotary(settings.head_width, settings.rotary_theta, each).frequencies(torch.device("cpu"))
        for each in (None, scaling)
    )
    return plain / scaled


def scaling_of(
    settings: DecoderSettings, factors: Tensor, length: int, where: str
) -> RotaryScaling:
    """The scaling whose factors (K/2,) a file writes out: Llama 3's of this original length.

    Raises UserError for factors that are not.
    """
    table = {"factor": float(f"{factors.max():.6g}"), "original_max_length": length}
    scaling = parse(RotaryScaling, table, where=f"{where}, {FACTORS}")
    if not torch.allclose(factors_of(settings, scaling), factors, rtol=1e-4):
        raise UserError(f"'{FACTORS}' are not the factors of Llama 3's positions", where=where)
    return scaling


def _interleaved(n_heads: int, width: int) -> Form:
    """Their rows of a head alternate between its halves, which are what our rotary pairs are."""
    order = torch.arange(n_heads * width).view(n_heads, width // 2, 2)  # theirs: pair, half
    return Form(rows=order.transpose(1, 2).reshape(-1))


def llama_rows(settings: DecoderSettings) -> list[Row]:
    ours, theirs, width = "stack.layers.{}", "blk.{}", settings.head_width
    turned = {
        "attention.to_query": ("attn_q", _interleaved(settings.n_heads, width)),
        "attention.to_key": ("attn_k", _interleaved(settings.kv_heads, width)),
    }
    plain = {
        "attention.to_value": ("attn_v", SAME),
        "attention.to_output": ("attn_output", SAME),
        "feed_forward.gate": ("ffn_gate", SAME),
        "feed_forward.up": ("ffn_up", SAME),
        "feed_forward.down": ("ffn_down", SAME),
        "around_attention.norm": ("attn_norm", SAME),
        "around_feed_forward.norm": ("ffn_norm", SAME),
    }
    layer = [
        row(f"{ours}.{mine}.weight", f"{theirs}.{other}.weight", form)
        for mine, (other, form) in (turned | plain).items()
    ]
    return [
        row("embedding.tokens.weight", "token_embd.weight"),
        *layers(layer, settings.n_layers),
        row("stack.final_norm.weight", "output_norm.weight"),
    ]


def _gpt2_rows(settings: DecoderSettings) -> list[Row]:
    ours, theirs = "stack.layers.{}", "blk.{}"
    names = {
        "around_attention.norm": "attn_norm",
        "attention.to_output": "attn_output",
        "around_feed_forward.norm": "ffn_norm",
        "feed_forward.up": "ffn_up",
        "feed_forward.down": "ffn_down",
    }
    layer = [
        row(
            tuple(f"{ours}.attention.to_{name}.{part}" for name in ("query", "key", "value")),
            f"{theirs}.attn_qkv.{part}",
        )
        for part in ("weight", "bias")
    ]
    for mine, other in names.items():
        layer += linear(f"{ours}.{mine}", f"{theirs}.{other}")
    return [
        row("embedding.tokens.weight", "token_embd.weight"),
        row("embedding.positions.weight", "position_embd.weight"),
        *layers(layer, settings.n_layers),
        *linear("stack.final_norm", "output_norm"),
    ]


ARCHITECTURES = {
    "llama": Architecture(_llama, llama_rows),
    "gpt2": Architecture(_gpt2, _gpt2_rows),
}
