"""The encoder–decoder as a folder that CTranslate2 translates with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.optional import optional
from headway.checkpoint.exchange.config import unsaid
from headway.models.embedding import Embedding
from headway.models.seq2seq import Transformer
from headway.nn.stack import Stack
from headway.settings.model import TransformerSettings

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
_ITS_LONGEST = 1024  # tokens of a source or a target, unless it is told otherwise
_HELD = {
    *("d_model", "d_feed_forward", "n_heads", "n_kv_heads", "d_head", "max_length"),
    *("n_encoder_layers", "n_decoder_layers", "bias", "attention_bias", "norm_eps", "order"),
    *("scale_embedding", "tie", "head_bias", "dropout", "attention_dropout", "rotary_theta"),
    "activation_dropout",
}
_COMPUTED: dict[str, Sequence[object]] = {
    "positions": ("sinusoidal", "learned"),
    "feed_forward": tuple(_ACTIVATIONS),
}


def fill_ctranslate2(
    folder: Path,
    model: Transformer,
    settings: TransformerSettings,
    vocabularies: tuple[list[str], list[str]],
    symbols: Mapping[str, str],
) -> None:
    """Write model.bin, config.json and the source's and target's vocabulary into a folder.

    A vocabulary has one token a row of the model. `symbols` are the tokens "bos", "eos" and "unk";
    a source must end with "eos". Raises UserError for what CTranslate2 does not compute. Use it in
    `atomic_folder`.
    """
    specs: Any = optional("ctranslate2.specs", extra="export", where="format")
    if odd := not_computed(settings):
        told = ", ".join(f"{key} = {getattr(settings, key)!r}" for key in odd)
        raise UserError(f"CTranslate2 does not compute {told}", where="model")
    spec = specs.TransformerSpec.from_config(
        (settings.n_encoder_layers, settings.n_decoder_layers),
        settings.n_heads,
        pre_norm=settings.order == "pre",
        activation=specs.common_spec.Activation[_ACTIVATIONS[settings.feed_forward]],
    )
    _side(spec.encoder, spec.encoder.embeddings[0], model.source_embedding, model.encoder, settings)
    _side(spec.decoder, spec.decoder.embeddings, model.target_embedding, model.decoder, settings)
    _linear(spec.decoder.projection, model.head)
    spec.register_source_vocabulary(vocabularies[0])
    spec.register_target_vocabulary(vocabularies[1])
    spec.config.layer_norm_epsilon = settings.norm_eps
    spec.config.decoder_start_token = symbols["bos"]
    for name, token in symbols.items():
        setattr(spec.config, f"{name}_token", token)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def not_computed(settings: TransformerSettings) -> list[str]:
    """The settings that say what CTranslate2 does not compute."""
    odd = unsaid(settings, _HELD, _COMPUTED)
    if settings.kv_heads != settings.n_heads:
        odd.append("n_kv_heads")
    if settings.head_width * settings.n_heads != settings.d_model:
        odd.append("d_head")
    return odd


def _side(
    spec: Any, tokens: Any, embedding: Embedding, stack: Stack, settings: TransformerSettings
) -> None:
    """The encoder or the decoder, with its embedding."""
    tokens.weight = embedding.tokens.weight.detach()
    spec.scale_embeddings = settings.scale_embedding
    if embedding.positions is not None:
        computed = settings.positions == "sinusoidal"
        n = max(settings.max_length, _ITS_LONGEST) if computed else settings.max_length
        spec.position_encodings.encodings = embedding.positions(torch.arange(n)).detach()
    if settings.order == "pre":
        _norm(spec.layer_norm, stack.final_norm)
    ours: Any  # blocks
    for theirs, ours in zip(spec.layer, stack.layers, strict=True):
        attention = ours.attention
        together = (attention.to_query, attention.to_key, attention.to_value)
        _linear(theirs.self_attention.linear[0], *together)
        _linear(theirs.self_attention.linear[1], attention.to_output)
        _norm(theirs.self_attention.layer_norm, ours.around_attention.norm)
        if hasattr(ours, "cross_attention"):
            crossing = ours.cross_attention
            _linear(theirs.attention.linear[0], crossing.to_query)
            _linear(theirs.attention.linear[1], crossing.to_key, crossing.to_value)
            _linear(theirs.attention.linear[2], crossing.to_output)
            _norm(theirs.attention.layer_norm, ours.around_cross_attention.norm)
        _linear(theirs.ffn.linear_0, ours.feed_forward.up)
        _linear(theirs.ffn.linear_1, ours.feed_forward.down)
        _norm(theirs.ffn.layer_norm, ours.around_feed_forward.norm)


def _linear(spec: Any, *layers: Any) -> None:
    """Linear layers of one input, their outputs one after another."""
    spec.weight = _joined([layer.weight for layer in layers])
    if layers[0].bias is not None:
        spec.bias = _joined([layer.bias for layer in layers])


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = norm.weight.detach(), norm.bias.detach()


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach() for tensor in tensors])
