"""transformers' Marian with the weights of a Transformer of ours, so that both are one function.

Marian is post-norm with sinusoidal positions, the sines in the first half of the width and the
cosines in the second, where ours take turns. A network does not mind if its width is permuted, so
all that reads or writes the width is. Of what Marian has, ours has no `final_logits_bias`; it is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from headway.models.seq2seq import Transformer
from headway.nn.attention import Attention
from headway.settings.model import TransformerSettings


def marian(
    ours: Transformer, settings: TransformerSettings, symbols: Mapping[str, int]
) -> MarianMTModel:
    """Marian with the weights of `ours`; `symbols` are its ids of pad, bos and eos."""
    config = MarianConfig(
        vocab_size=ours.vocabulary_sizes()[1],
        d_model=settings.d_model,
        encoder_layers=settings.n_encoder_layers,
        decoder_layers=settings.n_decoder_layers,
        encoder_attention_heads=settings.n_heads,
        decoder_attention_heads=settings.n_heads,
        encoder_ffn_dim=settings.d_feed_forward,
        decoder_ffn_dim=settings.d_feed_forward,
        max_position_embeddings=settings.max_length,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=symbols["pad"],
        eos_token_id=symbols["eos"],
        bos_token_id=symbols["bos"],
        decoder_start_token_id=symbols["bos"],
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    copy_weights(ours, model)
    return model


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: MarianMTModel) -> None:
    """Give Marian the weights of ours, with sines and cosines sorted into halves."""
    D = ours.head.weight.shape[1]
    order = torch.cat((torch.arange(0, D, 2), torch.arange(1, D, 2)))
    theirs.get_input_embeddings().weight.copy_(ours.head.weight[:, order])
    theirs.get_output_embeddings().weight.copy_(ours.head.weight[:, order])
    stacks = ((ours.encoder, theirs.model.encoder), (ours.decoder, theirs.model.decoder))
    for mine, other in stacks:
        for block, layer in zip(mine.layers, other.layers, strict=True):
            _copy_attention(block.attention, layer.self_attn, order)
            _copy_norm(block.around_attention.norm, layer.self_attn_layer_norm, order)
            if hasattr(block, "cross_attention"):
                _copy_attention(block.cross_attention, layer.encoder_attn, order)
                norm = block.around_cross_attention.norm
                _copy_norm(norm, layer.encoder_attn_layer_norm, order)
            _copy_reader(block.feed_forward.up, layer.fc1, order)
            _copy_writer(block.feed_forward.down, layer.fc2, order)
            _copy_norm(block.around_feed_forward.norm, layer.final_layer_norm, order)


def _copy_attention(mine: Attention, other: nn.Module, order: Tensor) -> None:
    _copy_reader(mine.to_query, other.q_proj, order)
    _copy_reader(mine.to_key, other.k_proj, order)
    _copy_reader(mine.to_value, other.v_proj, order)
    _copy_writer(mine.to_output, other.out_proj, order)


def _copy_reader(mine: nn.Linear, other: nn.Linear, order: Tensor) -> None:
    other.weight.copy_(mine.weight[:, order])
    other.bias.copy_(mine.bias)


def _copy_writer(mine: nn.Linear, other: nn.Linear, order: Tensor) -> None:
    other.weight.copy_(mine.weight[order])
    other.bias.copy_(mine.bias[order])


def _copy_norm(mine: nn.Module, other: nn.LayerNorm, order: Tensor) -> None:
    assert mine.eps == other.eps
    other.weight.copy_(mine.weight[order])
    other.bias.copy_(mine.bias[order])
