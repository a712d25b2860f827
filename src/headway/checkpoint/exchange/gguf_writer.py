"""Llama as a GGUF file that llama.cpp opens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from headway.base.errors import UserError
from headway.base.files import atomic_file
from headway.base.optional import optional
from headway.checkpoint.exchange.config import unsaid
from headway.checkpoint.exchange.gguf_models import (
    FACTORS,
    ORIGINAL_LENGTH,
    factors_of,
    llama_rows,
    scaling_of,
)
from headway.checkpoint.exchange.names import row, to_theirs
from headway.models.decoder import Decoder
from headway.settings.model import DecoderSettings, RotaryScaling

StorageName = Literal["F32", "F16", "Q8_0"]
_BLOCK = 32  # numbers of a row that Q8_0 stores together
_LARGEST = {"F16": 65504.0, "Q8_0": 127 * 65504.0}  # a block's scale is half precision as well
_HELD = {
    *("d_model", "d_feed_forward", "n_heads", "n_kv_heads", "d_head", "n_layers", "max_length"),
    *("norm_eps", "rotary_theta", "rotary_scaling", "tie", "origin", "dropout"),
    *("attention_dropout", "activation_dropout"),
}
_LLAMA: dict[str, Sequence[object]] = {
    "norm": ("rms",),
    "order": ("pre",),
    "feed_forward": ("swiglu",),
    "positions": ("rotary",),
    "bias": (False,),
    "attention_bias": (None, False),
}
_FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7}


def write_gguf(
    path: Path,
    model: Decoder,
    settings: DecoderSettings,
    tokenizer: Mapping[str, Any],
    *,
    storage: StorageName = "F16",
) -> None:
    """Write the model and the `tokenizer.*` metadata, whole or not at all.

    Matrices are stored as `storage` says, vectors in float32. Raises UserError for a model that is
    no Llama, for a scaling of positions that no reader could tell, and for rows or numbers that
    `storage` cannot hold.
    """
    gguf = optional("gguf", extra="gguf", where="format")
    _check(settings, storage)
    rows = llama_rows(settings)
    if settings.tie == "none":
        rows.append(row("head.weight", "output.weight"))
    tensors = to_theirs(rows, model.state_dict())
    if settings.rotary_scaling is not None:
        tensors[FACTORS] = _factors(settings, settings.rotary_scaling)
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and float(tensor.abs().max()) > _LARGEST.get(storage, math.inf):
            what = f"'{name}' has numbers beyond {_LARGEST[storage]:,.0f}, {storage}'s largest"
            raise UserError(what, where="model", todo="write --type f32")
    with atomic_file(path) as place:
        writer = gguf.GGUFWriter(place, "llama")
        for key, value in (_metadata(settings, model.n_tokens, storage) | dict(tokenizer)).items():
            _add(writer, key, value)
        kind = gguf.GGMLQuantizationType[storage]
        for name, tensor in tensors.items():
            array = tensor.detach().float().cpu().numpy()
            if array.ndim == 2 and storage != "F32":
                quantized = gguf.quants.quantize(array, kind)
                writer.add_tensor(name, quantized, raw_dtype=kind)
            else:
                writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _check(settings: DecoderSettings, storage: StorageName) -> None:
    if odd := unsaid(settings, _HELD, _LLAMA):
        told = ", ".join(f"{key} = {getattr(settings, key)!r}" for key in odd)
        what = f"GGUF is written for Llama models; this one has {told}"
        raise UserError(what, where="model")
    widths = (settings.d_model, settings.d_feed_forward, settings.n_heads * settings.head_width)
    if storage == "Q8_0" and any(width % _BLOCK for width in widths):
        raise UserError(
            f"Q8_0 stores {_BLOCK} numbers together, and a width of {widths} is no multiple of it",
            where="model",
            todo="write F16",
        )


def _factors(settings: DecoderSettings, scaling: RotaryScaling) -> torch.Tensor:
    """Raises UserError for a scaling that the file could not say to who reads it."""
    factors = factors_of(settings, scaling)
    length = scaling.original_max_length
    try:
        found = scaling_of(settings, factors, length, "model")
    except UserError:
        found = None
    if found != scaling:
        raise UserError(
            "GGUF files hold Llama 3's scaling, with bounds of 1 and 4 and a factor that some pair "
            f"has; this one is {scaling.to_table()}",
            where="model.rotary_scaling",
        )
    return factors


def _metadata(settings: DecoderSettings, n_tokens: int, storage: StorageName) -> dict[str, Any]:
    width, scaling = settings.head_width, settings.rotary_scaling
    stretched = {} if scaling is None else {ORIGINAL_LENGTH: scaling.original_max_length}
    return stretched | {
        "general.name": "headway",
        "general.file_type": _FILE_TYPES[storage],
        "general.quantization_version": 2,
        "llama.vocab_size": n_tokens,
        "llama.block_count": settings.n_layers,
        "llama.context_length": settings.max_length,
        "llama.embedding_length": settings.d_model,
        "llama.feed_forward_length": settings.d_feed_forward,
        "llama.attention.head_count": settings.n_heads,
        "llama.attention.head_count_kv": settings.kv_heads,
        "llama.attention.key_length": width,
        "llama.attention.value_length": width,
        "llama.attention.layer_norm_rms_epsilon": settings.norm_eps,
        "llama.rope.dimension_count": width,
        "llama.rope.freq_base": settings.rotary_theta,
    }


def _add(writer: Any, key: str, value: Any) -> None:
    """A value by its kind, as llama.cpp reads it: whole numbers of 32 bits, floats of 32 bits."""
    if isinstance(value, bool | np.bool_):
        writer.add_bool(key, bool(value))
    elif isinstance(value, int | np.integer):
        writer.add_uint32(key, int(value))
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value.tolist() if isinstance(value, np.ndarray) else list(value))
