"""What is minimised: from a model and a batch to a sum of losses for each part of it."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import torch

from headway.batches.packed import PackedBatch
from headway.batches.pairs import PairBatch
from headway.models.decoder import Decoder
from headway.models.encoder_decoder import EncoderDecoder
from headway.nn.dropout import Noise
from headway.training.losses import TokenLoss, token_loss

Losses = dict[str, TokenLoss]
"""Part of the loss -> its sums over the targets of a batch; the batch counts them."""


class Objective(Protocol):
    """The losses of a batch, in the parts that the batch counts."""

    def __call__(self, model: Any, batch: Any, noise: Noise | None, dtype: str) -> Losses:
        """`dtype` "bfloat16" makes matrix products in it; the loss has at least float32."""


class PredictTarget:
    """The next target token of each pair, for an encoder–decoder."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(
        self, model: EncoderDecoder[Any, Any], batch: PairBatch, noise: Noise | None, dtype: str
    ) -> Losses:
        """The loss of the real target tokens of a batch."""
        with autocast(batch.source.device, dtype):
            encoded = model.encode(batch.source, batch.source_real, noise)
            hidden = model.decode(batch.target, encoded, noise)
        hidden = hidden[batch.target_real]  # (N, D)
        if dtype == "bfloat16":
            hidden = hidden.bfloat16()  # the norms gave float32
        targets, head = batch.following[batch.target_real], model.head
        return {"token": token_loss(hidden, head.weight, targets, self.smoothing, head.bias)}


class PredictNext:
    """The next token of documents packed end to end, for a decoder."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(
        self, model: Decoder, batch: PackedBatch, noise: Noise | None, dtype: str
    ) -> Losses:
        """The loss of the tokens that follow one of their own document."""
        with autocast(batch.ids.device, dtype):
            hidden = model.hidden(batch.ids, numbers=batch.numbers, noise=noise)
        hidden = hidden[batch.predicted]  # (N, D)
        if dtype == "bfloat16":
            hidden = hidden.bfloat16()
        targets, head = batch.following[batch.predicted], model.head
        return {"token": token_loss(hidden, head.weight, targets, self.smoothing, head.bias)}


def autocast(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    """Matrix products in bfloat16 if that is the dtype; norms and softmax stay in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")
