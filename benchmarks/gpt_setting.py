"""What train-gpt trains and on what: text, model, batches, rates."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.batches.packed import PackedBatches, Packing
from headway.batches.pairs import EncodedSide
from headway.data.builtin_text import stdlib_documents
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.settings.model import DecoderSettings
from headway.settings.training import TextTrainSettings
from headway.training.loop import Trainer
from headway.training.objectives import PredictNext

V, LENGTH, ROWS = 256, 256, 16
BATCHES = 4  # a turn; the same ones in each
SIZES: dict[str, int] = {"n_layers": 6, "n_heads": 6, "d_model": 384}
RATE, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


class Given:
    """The text and the model that all begin with."""

    def __init__(self, dropout: float) -> None:
        text = b"\n".join(text.encode("utf-8") for _, text in stdlib_documents())[: 2**22]
        one = EncodedSide.of([list(text)])  # a single document, so that there are no borders
        self.batches = PackedBatches(
            [Packing(one, LENGTH, seed=None)], [1.0], ROWS * LENGTH, seed=1, pad=0
        )
        self.dropout = dropout
        self.settings = DecoderSettings(
            **SIZES,
            d_feed_forward=4 * SIZES["d_model"],
            max_length=LENGTH,
            order="pre",
            feed_forward="gelu",
            positions="learned",
            tie="output",
            dropout=dropout,
        )

    def model(self) -> Decoder:
        """Ours with its first weights."""
        return build_decoder(self.settings, n_tokens=V, seed=1)

    def trainer(self, dtype: str) -> Trainer:
        """Our trainer, at step 0."""
        train = TextTrainSettings(
            steps=100_000,
            batch_tokens=ROWS * LENGTH,
            learning_rate=RATE,
            schedule="constant",
            warmup=0,
            betas=list(BETAS),
            weight_decay=DECAY,
            clip=CLIP,
            dtype=dtype,
        )
        device = torch.device("cpu")
        return Trainer(self.model(), train, self.batches, PredictNext(0.0), seed=1, device=device)

    def tensors(self, n: int) -> list[tuple[Tensor, Tensor]]:
        """The first batches."""
        made = (self.batches.batch(0, rows) for rows in self.batches.epoch(0)[:n])
        return [(batch.ids, batch.following) for batch in made]
