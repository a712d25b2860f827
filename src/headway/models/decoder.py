"""The causal language model: GPT (Radford et al., 2018, 2019) and Llama (Touvron et al., 2023)."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from headway.models.embedding import Embedding
from headway.nn.dropout import Noise
from headway.nn.slots import Part, Slots
from headway.nn.stack import Cache, Remembered, Stack, row_positions
from headway.nn.visibility import Visibility, causal, documents, padding
from headway.settings.model import DecoderSettings


class DecoderState(NamedTuple):
    """Where N texts stand: what the stack remembers, and which of it (N, S) are tokens.

    Padding stands before a text, so that all texts end, and go on, at the same place.
    """

    past: Cache | None
    real: Tensor

    def select(self, rows: Tensor) -> DecoderState:
        """The texts `rows` (M,), in that order."""
        past = self.past.select(rows) if self.past is not None else None
        return DecoderState(past, self.real[rows])


Going = TypeVar("Going", DecoderState, Part)
"""Texts that go on: of a batch that is a value, or some rows of a cache that changes in place."""


class Decoder(nn.Module):
    """Embedding, causal stack, and an output projection that may be the embedding."""

    def __init__(self, settings: DecoderSettings, n_tokens: int) -> None:
        super().__init__()
        tokens = nn.Embedding(n_tokens, settings.d_model)
        self.embedding = Embedding(tokens, settings)
        self.stack = Stack(settings, settings.n_layers)
        self.head = nn.Linear(settings.d_model, n_tokens, bias=False)
        if settings.tie == "output":
            self.head.weight = tokens.weight

    @property
    def n_tokens(self) -> int:
        """V: how many ids there are rows for."""
        return self.head.out_features

    def hidden(
        self,
        ids: Tensor,
        *,
        real: Tensor | None = None,
        numbers: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Ids (B, T) -> hidden (B, T, D), to be given to `head`.

        `real` (B, T) boolean tells tokens from padding on either side; `numbers` (B, T) names the
        document of each token of a packed row: no document sees another, and each begins at
        position 0. Separate from `head` so that logits need be made of real tokens only.
        """
        visibility, positions = causal(), torch.arange(ids.shape[1], device=ids.device)
        if real is not None:
            visibility, positions = visibility & padding(real), row_positions(real)
        if numbers is not None:
            visibility = visibility & documents(numbers)
            positions = _since_change(numbers)
        return self._advance(ids, positions, visibility, None, noise)[0]

    def forward(
        self, ids: Tensor, real: Tensor | None = None, numbers: Tensor | None = None
    ) -> Tensor:
        """Ids (B, T) -> logits (B, T, V) of what follows each; the arguments are `hidden`'s."""
        logits: Tensor = self.head(self.hidden(ids, real=real, numbers=numbers))
        return logits

    def start(self, ids: Tensor, lengths: Tensor) -> DecoderState:
        """Read prompts but for their last token: ids (N, T) whose last `lengths` (N,) are real.

        The first step is then given that last token. With none at all (T = 0) nothing was read.
        """
        T = ids.shape[1]
        real = torch.arange(T, device=ids.device) >= T - lengths[:, None]
        if T == 0:
            return DecoderState(None, real)
        visibility = causal() & padding(real)
        _, past = self._advance(ids, row_positions(real), visibility, None, None)
        return DecoderState(past, real)

    def slots(self, rows: int, places: int) -> Slots:
        """A cache for at most `rows` texts of at most `places` tokens; there are none yet."""
        return Slots(len(self.stack.layers), rows, places)

    def step(self, ids: Tensor, state: Going) -> tuple[Tensor, Going]:
        """Ids (N, T) after the state -> logits (N, T, V) and the state after them."""
        hidden, after = self.read(ids, state)
        return self.head(hidden), after

    def read(self, ids: Tensor, state: Going) -> tuple[Tensor, Going]:
        """Ids (N, T) after the state -> hidden (N, T, D), as of `hidden`, and the state after."""
        if isinstance(state, Part):
            ahead = state.ahead(ids.shape[1], ids.device)
            hidden, _ = self._advance(ids, ahead.positions, ahead.visibility, ahead, None)
            return hidden, state.after(ids.shape[1])
        real = torch.cat((state.real, torch.ones_like(ids, dtype=torch.bool)), dim=1)
        positions = row_positions(real)[:, -ids.shape[1] :]
        hidden, past = self._advance(ids, positions, causal() & padding(real), state.past, None)
        return hidden, DecoderState(past, real)

    def _advance(
        self,
        ids: Tensor,
        positions: Tensor,
        visibility: Visibility,
        past: Remembered | None,
        noise: Noise | None,
    ) -> tuple[Tensor, Cache]:
        entered = self.embedding(ids, positions, noise)
        hidden, now = self.stack(
            entered, visibility=visibility, positions=positions, past=past, noise=noise
        )
        return hidden, now


def _since_change(numbers: Tensor) -> Tensor:
    """(B, T) -> (B, T): how many places before each have, without a break, the same number."""
    places = torch.arange(numbers.shape[1], device=numbers.device)
    begins = torch.ones_like(numbers, dtype=torch.bool)
    begins[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    return places - torch.where(begins, places, 0).cummax(dim=1).values


def initialise_decoder(model: Decoder, settings: DecoderSettings) -> None:
    """Normal, of deviation √(2 / 5D); what adds to the residual stream divided by √(2 L).

    Nguyen and Salazar, 2019 (arXiv 1910.05895), section 3.2, which at GPT-2's width is its 0.02
    (Radford et al., 2019, section 2.3); a narrow model learns slowly from weights that small.
    """
    deviation = (2 / (5 * settings.d_model)) ** 0.5
    for name, weight in model.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(weight)
        elif weight.dim() == 2:
            writes = name.endswith(("to_output.weight", "down.weight"))
            nn.init.normal_(
                weight, std=deviation / ((2 * settings.n_layers) ** 0.5 if writes else 1)
            )
