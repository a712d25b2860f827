"""torch.nn.Transformer as a translator, written the ordinary way, with the weights of ours."""

from __future__ import annotations

import math

import torch
from multi30k import Setting
from torch import Tensor, nn

from headway.batches.pairs import PairBatch
from headway.models.seq2seq import Transformer
from headway.nn.attention import Attention
from headway.settings.model import TransformerSettings
from headway.settings.training import TrainSettings
from headway.training.schedules import learning_rate


class Ordinary(nn.Module):
    """A translator around torch.nn.Transformer, with as many ids on both sides."""

    def __init__(self, settings: TransformerSettings, n_ids: int) -> None:
        super().__init__()
        D = settings.d_model
        self.tokens = nn.Embedding(n_ids, D)
        self.dropout = nn.Dropout(settings.dropout)
        self.transformer = nn.Transformer(
            D,
            settings.n_heads,
            settings.n_encoder_layers,
            settings.n_decoder_layers,
            settings.d_feed_forward,
            settings.dropout,
            batch_first=True,
        )
        self.transformer.encoder.norm = None
        self.transformer.decoder.norm = None
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = settings.attention_dropout
        self.head = nn.Linear(D, n_ids, bias=False)
        self.head.weight = self.tokens.weight
        position = torch.arange(settings.max_length)[:, None]
        angles = position * torch.exp(torch.arange(0, D, 2) * (-math.log(10_000.0) / D))
        waves = torch.zeros(settings.max_length, D)
        waves[:, 0::2], waves[:, 1::2] = torch.sin(angles), torch.cos(angles)
        self.register_buffer("waves", waves)

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)."""
        hidden = self.tokens(ids) * math.sqrt(self.tokens.embedding_dim)
        return self.dropout(hidden + self.waves[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor, pad: int) -> Tensor:
        """(B, S), (B, T) -> logits (B, T, V)."""
        T = target.shape[1]
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
            src_key_padding_mask=source == pad,
            tgt_key_padding_mask=target == pad,
            memory_key_padding_mask=source == pad,
        )
        return self.head(hidden)


class OrdinaryTrainer:
    """The training loop that goes with it."""

    def __init__(self, model: Ordinary, settings: TrainSettings, pad: int, dtype: str) -> None:
        self.model, self.settings, self.pad, self.dtype = model, settings, pad, dtype
        self.loss = nn.CrossEntropyLoss(ignore_index=pad, label_smoothing=settings.label_smoothing)
        self.optimizer = torch.optim.Adam(
            model.parameters(), betas=tuple(settings.betas), eps=settings.eps, fused=True
        )
        self.steps = 0

    def step(self, batch: PairBatch) -> float:
        """One step; gives the loss."""
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, self.steps)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bfloat16"):
            logits = self.model(batch.source, batch.target, self.pad)
            loss = self.loss(logits.flatten(0, 1), batch.following.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        return loss.item()


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: Ordinary) -> None:
    """Give theirs the weights of ours."""
    theirs.tokens.weight.copy_(ours.target_embedding.tokens.weight)
    stacks = (
        (ours.encoder, theirs.transformer.encoder),
        (ours.decoder, theirs.transformer.decoder),
    )
    for mine, other in stacks:
        for block, layer in zip(mine.layers, other.layers, strict=True):
            _copy_attention(block.attention, layer.self_attn)
            parts = [
                (block.around_attention.norm, layer.norm1),
                (block.feed_forward.up, layer.linear1),
                (block.feed_forward.down, layer.linear2),
            ]
            if hasattr(block, "cross_attention"):
                _copy_attention(block.cross_attention, layer.multihead_attn)
                parts.append((block.around_cross_attention.norm, layer.norm2))
                parts.append((block.around_feed_forward.norm, layer.norm3))
            else:
                parts.append((block.around_feed_forward.norm, layer.norm2))
            for part, copy in parts:
                copy.weight.copy_(part.weight)
                copy.bias.copy_(part.bias)


def _copy_attention(mine: Attention, other: nn.MultiheadAttention) -> None:
    ways = (mine.to_query, mine.to_key, mine.to_value)
    other.in_proj_weight.copy_(torch.cat([way.weight for way in ways]))
    other.in_proj_bias.copy_(torch.cat([way.bias for way in ways]))
    other.out_proj.weight.copy_(mine.to_output.weight)
    other.out_proj.bias.copy_(mine.to_output.bias)


def ordinary(setting: Setting, dtype: str) -> OrdinaryTrainer:
    """Their trainer, at step 0, with the same first weights as ours."""
    mine, settings = setting.model(), setting.settings
    assert isinstance(settings.model, TransformerSettings)
    model = Ordinary(settings.model, mine.vocabulary_sizes()[1])
    copy_weights(mine, model)
    return OrdinaryTrainer(model.train(), settings.train, setting.order.pad, dtype)
