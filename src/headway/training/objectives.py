"""What is minimised: from a model and a batch to a sum of losses for each part of it."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import torch

from headway.batches.masked import MaskedBatch
from headway.batches.packed import PackedBatch
from headway.batches.pairs import PairBatch
from headway.models.decoder import Decoder
from headway.models.encoder import MaskedLanguageModel
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


class PredictMasked:
    """The tokens that were masked, and whether the second text follows the first, for an encoder.

    Devlin et al. 2019, section 3.1.
    """

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(
        self, model: MaskedLanguageModel, batch: MaskedBatch, noise: Noise | None, dtype: str
    ) -> Losses:
        """The loss of the chosen tokens, and of the second texts of which anything is asked."""
        with autocast(batch.ids.device, dtype):
            hidden = model.encoder(batch.ids, batch.real, batch.segments, noise)
            chosen = model.masked.transformed(hidden[batch.chosen])  # (N, D)
            pooled = None if batch.relation is None else model.encoder.pool(hidden)
        if dtype == "bfloat16":
            chosen = chosen.bfloat16()
        output = model.masked.output
        losses = {
            "masked": token_loss(chosen, output.weight, batch.targets, self.smoothing, output.bias)
        }
        if pooled is not None and batch.relation is not None and model.follows is not None:
            asked = batch.relation >= 0
            weight, bias = model.follows.weight, model.follows.bias
            losses["follows"] = token_loss(pooled[asked], weight, batch.relation[asked], 0.0, bias)
        return losses


def autocast(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    """Matrix products in bfloat16 if that is the dtype; norms and softmax stay in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")
