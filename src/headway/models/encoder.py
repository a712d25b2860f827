"""The bidirectional encoder: BERT (Devlin et al., 2019), and the heads that its tasks need."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headway.models.embedding import Embedding
from headway.nn.dropout import Dropout, Noise
from headway.nn.feed_forward import ACTIVATIONS
from headway.nn.norm import make_norm
from headway.nn.reach import make_attentions
from headway.nn.stack import Stack, row_positions
from headway.nn.visibility import padding
from headway.settings.model import EncoderSettings


class Encoder(nn.Module):
    """Embedding of tokens, positions and segments, stack, and a pooler where the settings say."""

    def __init__(self, settings: EncoderSettings, n_tokens: int) -> None:
        super().__init__()
        D = settings.d_model
        self.embedding = Embedding(nn.Embedding(n_tokens, D), settings, settings.n_segments)
        self.stack = Stack(
            settings,
            settings.n_layers,
            attentions=make_attentions(settings),
            n_global=settings.n_global,
            dilation=settings.dilation,
        )
        self.pooler = nn.Linear(D, D) if settings.pooler else None

    @property
    def n_tokens(self) -> int:
        """V: how many ids there are rows for."""
        return self.embedding.tokens.num_embeddings

    def forward(
        self,
        ids: Tensor,
        real: Tensor,
        segments: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Ids (B, T), which are real (B, T), segments (B, T) -> hidden (B, T, D).

        Padding may stand on either side; behind the text, where some tokens see all or keys are
        mixed, for these go by places.
        """
        positions = row_positions(real)
        entered = self.embedding(ids, positions, noise, segments)
        hidden: Tensor
        hidden, _ = self.stack(entered, visibility=padding(real), positions=positions, noise=noise)
        return hidden

    def pool(self, hidden: Tensor) -> Tensor:
        """tanh(W h + b) of the first token: (B, T, D) -> (B, D).

        Raises ValueError if the settings have no pooler.
        """
        if self.pooler is None:
            raise ValueError("an encoder of settings with pooler = false has no pooled state")
        return torch.tanh(self.pooler(hidden[:, 0]))


def mean_pool(hidden: Tensor, real: Tensor) -> Tensor:
    """The mean of the real tokens' states: (B, T, D), (B, T) -> (B, D); 0 where there is none."""
    kept = real[..., None].to(hidden.dtype)  # (B, T, 1)
    return (hidden * kept).sum(dim=1) / kept.sum(dim=1).clamp_min(1.0)


class MaskedHead(nn.Module):
    """Which token stands at a masked place: a transform, then the token embeddings and a bias.

    Its activation is that of the feed-forward parts; where these are gated, the gate's.
    """

    def __init__(self, settings: EncoderSettings, tokens: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Linear(settings.d_model, settings.d_model)
        gated = settings.feed_forward == "swiglu"
        self.activation = ACTIVATIONS["silu" if gated else settings.feed_forward]
        self.norm = make_norm(settings)
        self.output = nn.Linear(settings.d_model, tokens.num_embeddings)
        self.output.weight = tokens.weight

    def transformed(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, D), to be given to `output`; separate so that few logits need be made."""
        normed: Tensor = self.norm(self.activation(self.transform(hidden)))
        return normed

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) -> logits (…, V)."""
        logits: Tensor = self.output(self.transformed(hidden))
        return logits


class MaskedLanguageModel(nn.Module):
    """An encoder with BERT's two heads: the masked token, and whether the second text follows."""

    def __init__(self, settings: EncoderSettings, n_tokens: int) -> None:
        super().__init__()
        self.encoder = Encoder(settings, n_tokens)
        self.masked = MaskedHead(settings, self.encoder.embedding.tokens)
        self.follows = nn.Linear(settings.d_model, 2) if settings.pooler else None

    def forward(
        self,
        ids: Tensor,
        real: Tensor,
        segments: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Ids (B, T), real (B, T), segments (B, T) -> logits (B, T, V) of each place."""
        logits: Tensor = self.masked(self.encoder(ids, real, segments, noise))
        return logits


class Classifier(nn.Module):
    """An encoder and a linear layer on its pooled state: classes, or one number for regression."""

    def __init__(self, settings: EncoderSettings, n_tokens: int, n_classes: int) -> None:
        super().__init__()
        self.encoder = Encoder(settings, n_tokens)
        self.dropout = Dropout(settings.dropout)
        self.head = nn.Linear(settings.d_model, n_classes)

    def forward(
        self,
        ids: Tensor,
        real: Tensor,
        segments: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Ids (B, T), real (B, T), segments (B, T) -> logits (B, classes)."""
        pooled = self.encoder.pool(self.encoder(ids, real, segments, noise))
        logits: Tensor = self.head(self.dropout(pooled, noise))
        return logits


def initialise_encoder(model: nn.Module) -> None:
    """Matrices normal with deviation 0.02, biases 0 (Devlin et al., 2019)."""
    for name, weight in model.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(weight)
        elif weight.dim() == 2:
            nn.init.normal_(weight, std=0.02)
