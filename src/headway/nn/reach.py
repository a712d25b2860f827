"""Attention of encoders that does not look at everything: Longformer's global tokens, Linformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headway.nn.attend import attend
from headway.nn.attention import Attention, KeyValue
from headway.nn.dropout import Dropout, Noise
from headway.nn.positions import Rotation
from headway.nn.visibility import Visibility
from headway.settings.model import EncoderSettings, StackSettings


class GlobalAttention(Attention):
    """The first `n_global` tokens look at all, with projections of their own.

    Beltagy et al., 2020 (arXiv 2004.05150), section 3.1. That all look at them is a matter of the
    visibility. Rows are padded at their ends.
    """

    def __init__(self, settings: StackSettings, n_global: int) -> None:
        super().__init__(settings)
        D, width = settings.d_model, self.to_query.out_features
        self.n_global = n_global
        self.to_global_query = nn.Linear(D, width, bias=settings.biases_attention)
        self.to_global_key = nn.Linear(D, self.to_key.out_features, bias=settings.biases_attention)
        self.to_global_value = nn.Linear(
            D, self.to_value.out_features, bias=settings.biases_attention
        )
        self.global_dropout = Dropout(settings.attention_dropout)

    def attended(
        self,
        hidden: Tensor,
        query: Tensor,
        keys: KeyValue,
        *,
        visibility: Visibility,
        rotation: Rotation | None,
        noise: Noise | None,
    ) -> Tensor:
        """(B, T, D) attending to S = T keys -> (B, T, H·K)."""
        found = super().attended(
            hidden, query, keys, visibility=visibility, rotation=rotation, noise=noise
        )
        first = hidden[:, : self.n_global]
        query = self.split(self.to_global_query(first), self.n_heads)
        key = self.split(self.to_global_key(hidden), self.n_kv_heads)
        value = self.split(self.to_global_value(hidden), self.n_kv_heads)
        every = self.joined(
            attend(
                rotation.first(self.n_global).turn(query) if rotation else query,
                self.score.keys(rotation.turn(key) if rotation else key),
                value,
                score=self.score,
                visibility=visibility.without_windows(),
                on_weights=self.look(),
                drop=self.global_dropout.drop(noise),
            )
        )
        return torch.cat((every, found[:, self.n_global :]), dim=1)


class Mixtures(nn.Module):
    """`n_keys` learned mixtures in place of S keys, and in place of their values.

    Linformer (Wang et al., 2020, arXiv 2006.04768), equation 7. A position weighs the same in each
    text, so that a text may not be longer than those that it was learned from, and is padded at its
    end.
    """

    def __init__(self, n_keys: int, max_length: int, *, one: bool) -> None:
        super().__init__()
        self.of_keys = nn.Parameter(torch.empty(n_keys, max_length))
        self.of_values = self.of_keys if one else nn.Parameter(torch.empty(n_keys, max_length))
        nn.init.normal_(self.of_keys, std=n_keys**-0.5)
        nn.init.normal_(self.of_values, std=n_keys**-0.5)

    def forward(self, keys: KeyValue, visibility: Visibility) -> tuple[KeyValue, Visibility]:
        """(B, G, S, ·) -> (B, G, n_keys, ·), all of which may be looked at."""
        key, value = keys[:2]
        real = visibility.real()
        if real is not None:
            shown = real[:, None, :, None].to(key.dtype)  # (B, 1, S, 1)
            key, value = key * shown, value * shown
        S = key.shape[2]
        return (
            KeyValue(self.of_keys[:, :S] @ key, self.of_values[:, :S] @ value),
            Visibility(),
        )


def make_attentions(settings: EncoderSettings) -> list[Attention]:
    """The self-attention of each layer of an encoder."""
    if settings.n_keys is None:
        return [
            GlobalAttention(settings, settings.n_global)
            if settings.n_global and settings.reach[layer % len(settings.reach)]
            else Attention(settings)
            for layer in range(settings.n_layers)
        ]
    shared = settings.mixes
    n, longest = settings.n_keys, settings.max_length
    all_layers = Mixtures(n, longest, one=True) if shared == "layers" else None
    return [
        Attention(settings, all_layers or Mixtures(n, longest, one=shared == "keys_and_values"))
        for _ in range(settings.n_layers)
    ]
