"""Attention layers: from self-attention without projections to grouped multi-head attention."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from headway.nn.attend import attend
from headway.nn.dropout import Dropout, Noise
from headway.nn.positions import Rotation
from headway.nn.scores import Score, make_score
from headway.nn.tap import Tap
from headway.nn.visibility import Visibility
from headway.settings.model import StackSettings


def self_attention(hidden: Tensor, *, score: Score, visibility: Visibility) -> Tensor:
    """The simplest case: each vector becomes a mean of the vectors that it scores highly.

    Nothing is learned but what the score has; `hidden` (B, T, D) is query, key and value at once.
    Gives (B, T, D).
    """
    heads = hidden[:, None]  # (B, 1, T, D)
    return attend(heads, score.keys(heads), heads, score=score, visibility=visibility)[:, 0]


LEAST_ROOM = 64  # places


class Room:
    """Keys and values with free places behind them, and how many are taken."""

    def __init__(self, keys: KeyValue, places: int) -> None:
        self.taken = keys.length
        self.parts = tuple(
            part.new_empty(*part.shape[:2], places, part.shape[3]) for part in keys[:2]
        )
        for room, part in zip(self.parts, keys[:2], strict=True):
            room[:, :, : self.taken] = part

    def take(self, new: KeyValue) -> KeyValue:
        """Write behind what there is; all of it."""
        begin, self.taken = self.taken, self.taken + new.length
        for room, part in zip(self.parts, new[:2], strict=True):
            room[:, :, begin : self.taken] = part
        key, value = (room[:, :, : self.taken] for room in self.parts)
        return KeyValue(key, value, self, grows=True)

    def has(self, keys: KeyValue, n: int) -> bool:
        """Whether `n` more fit behind `keys`, and nothing stands there yet."""
        room = self.parts[0]
        alike = room.is_inference() == torch.is_inference_mode_enabled()  # else torch refuses
        return alike and self.taken == keys.length and self.taken + n <= room.shape[2]


class KeyValue(NamedTuple):
    """Keys as the score prepares them (B, G, S, ·) and values (B, G, S, K): a cache as a value.

    It does not change, though what is appended may be written into the `room` behind it. Room is
    made for one that `grows`, that was appended to before: of a beam, whose rows are chosen anew at
    each step, it would be left after one.
    """

    key: Tensor
    value: Tensor
    room: Room | None = None
    grows: bool = False

    @property
    def length(self) -> int:
        """S: how many keys there are."""
        return self.key.shape[2]

    def append(self, new: KeyValue) -> KeyValue:
        """These and then the new ones: S grows."""
        learns = torch.is_grad_enabled() and (self.key.requires_grad or new.key.requires_grad)
        if learns or not self.grows:
            key, value = (torch.cat(parts, dim=2) for parts in zip(self[:2], new[:2], strict=True))
            return KeyValue(key, value, grows=not learns)
        room = self.room
        if room is None or not room.has(self, new.length):
            room = Room(self, max(LEAST_ROOM, 2 * (self.length + new.length)))
        return room.take(new)

    def select(self, rows: Tensor) -> KeyValue:
        """The rows (N,) of the batch, in that order."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class Past(Protocol):
    """What a layer remembers of the tokens before."""

    def append(self, new: KeyValue, /) -> KeyValue:
        """These and then the new ones."""
        ...


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al., 2017, section 3.2.2) with grouped key/value heads.

    Fewer key/value heads than query heads is grouped-query attention (Ainslie et al., 2023). The
    same layer attends to its own sequence or to another (cross-attention): that depends only on
    whose `keys` it is given. With `mixtures` it attends to mixtures of these. `joint` computes
    queries, keys and values in one product, where the three layers were joined.
    """

    def __init__(self, settings: StackSettings, mixtures: nn.Module | None = None) -> None:
        super().__init__()
        D, K, bias = settings.d_model, settings.head_width, settings.biases_attention
        self.n_heads, self.n_kv_heads = settings.n_heads, settings.kv_heads
        self.to_query = nn.Linear(D, self.n_heads * K, bias=bias)
        self.to_key = nn.Linear(D, self.n_kv_heads * K, bias=bias)
        self.to_value = nn.Linear(D, self.n_kv_heads * K, bias=bias)
        self.to_output = nn.Linear(self.n_heads * K, D, bias=bias)
        self.joint: nn.Module | None = None
        self.score = make_score(
            settings.score,
            K,
            K,
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            rank=settings.score_rank,
        )
        self.mixtures = mixtures
        self.dropout = Dropout(settings.attention_dropout)
        self.tap_weights = Tap()

    def own(self, hidden: Tensor, rotation: Rotation | None) -> tuple[Tensor, KeyValue]:
        """(B, T, D) -> queries (B, H, T, K), and keys and values (B, G, T, K), of one sequence."""
        if self.joint is None:
            return self.queries(hidden, rotation), self.keys(hidden, rotation)
        H, G = self.n_heads, self.n_kv_heads
        heads = self.split(self.joint(hidden).float(), H + 2 * G)
        turned = rotation.turn(heads[:, : H + G]) if rotation else heads
        key = self.score.keys(turned[:, H : H + G])
        return turned[:, :H], KeyValue(key, heads[:, H + G :])

    def queries(self, hidden: Tensor, rotation: Rotation | None) -> Tensor:
        """(B, T, D) -> (B, H, T, K)."""
        query = self.split(self.to_query(hidden), self.n_heads)
        return rotation.turn(query) if rotation else query

    def keys(self, hidden: Tensor, rotation: Rotation | None) -> KeyValue:
        """(B, S, D) -> keys and values (B, G, S, K)."""
        key, value = (
            self.split(self.to_key(hidden), self.n_kv_heads),
            self.split(self.to_value(hidden), self.n_kv_heads),
        )
        return KeyValue(self.score.keys(rotation.turn(key) if rotation else key), value)

    def forward(
        self,
        hidden: Tensor,
        keys: KeyValue,
        *,
        query: Tensor | None = None,
        visibility: Visibility,
        rotation: Rotation | None,
        noise: Noise | None,
    ) -> Tensor:
        """(B, T, D) attending to S keys -> (B, T, D); `query` if `own` made it with the keys."""
        if query is None:
            query = self.queries(hidden, rotation)
        result: Tensor = self.to_output(
            self.attended(
                hidden, query, keys, visibility=visibility, rotation=rotation, noise=noise
            )
        )
        return result

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
        """Queries (B, H, T, K) on S keys -> (B, T, H·K): what the heads found, side by side."""
        if self.mixtures is not None:
            keys, visibility = self.mixtures(keys, visibility)
        return self.joined(
            attend(
                query,
                keys.key,
                keys.value,
                score=self.score,
                visibility=visibility,
                on_weights=self.look(),
                drop=self.dropout.drop(noise),
            )
        )

    def look(self) -> Tap | None:
        """Who looks at the weights; mostly nobody."""
        return self.tap_weights if self.tap_weights.watched else None

    @staticmethod
    def split(hidden: Tensor, heads: int) -> Tensor:
        """(B, T, H·K) -> (B, H, T, K)."""
        B, T, width = hidden.shape
        return hidden.view(B, T, heads, width // heads).transpose(1, 2)

    @staticmethod
    def joined(attended: Tensor) -> Tensor:
        """(B, H, T, K) -> (B, T, H·K)."""
        return attended.transpose(1, 2).flatten(2)
