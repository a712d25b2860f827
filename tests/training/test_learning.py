"""What learns: tiny models that must copy strings they have not seen, or something is broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headway.batches.pairs import EncodedPairs, EncodedSide, PairBatches
from headway.decode.greedy import greedy
from headway.models.build import build
from headway.models.encoder_decoder import EncoderDecoder
from headway.settings.model import RecurrentSettings, TransformerSettings
from headway.settings.training import TrainSettings
from headway.training.loop import Hook, Trainer
from headway.training.objectives import PredictTarget

PAD, BOS, EOS = 0, 2, 3
LETTERS, LENGTH = 8, 5
MODELS = {
    "transformer": TransformerSettings(
        d_model=32,
        d_feed_forward=64,
        n_heads=2,
        n_encoder_layers=1,
        n_decoder_layers=1,
        max_length=16,
        dropout=0.0,
        order="pre",
    ),
    "recurrent": RecurrentSettings(d_embedding=24, d_hidden=48, score="scaled_dot", dropout=0.0),
}


def strings(n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Distinct strings of letters, (n, LENGTH)."""
    random = np.random.default_rng(0)
    numbers = random.choice(LETTERS**LENGTH, n, replace=False)
    return 4 + numbers[:, None] // LETTERS ** np.arange(LENGTH) % LETTERS


def accuracy(model: EncoderDecoder[Any, Any], rows: np.ndarray[Any, Any]) -> float:
    """Percent of the tokens that decoding puts where they belong, the end symbol included.

    Decoded one by one: a decoder that saw the future in training has learned nothing for this.
    """
    wanted = [[*row.tolist(), EOS] for row in rows]
    with torch.no_grad():
        model.eval()
        lengths = torch.full((len(rows),), LENGTH + 1)
        state = model.start(torch.tensor(wanted), lengths)
        limits = [LENGTH + 3] * len(rows)
        found = greedy(model, state, rows=len(rows), bos=BOS, eos=EOS, limits=limits)
    right = 0
    for hypothesis, row in zip(found, wanted, strict=True):
        given = [*hypothesis.ids, *([EOS] if hypothesis.ended else [])]
        right += sum(one == other for one, other in zip(given, row, strict=False))
    return 100.0 * right / (len(rows) * (LENGTH + 1))


@pytest.mark.parametrize("kind", MODELS)
def test_it_learns_to_copy(kind: str) -> None:
    made = strings(1200)
    learned, unseen = made[:1000], made[1000:]
    side = EncodedSide.of([[*row.tolist(), EOS] for row in learned])
    settings = TrainSettings(
        steps=160,
        batch_tokens=384,
        learning_rate=1e-2,
        warmup=40,
        schedule="cosine",
        label_smoothing=0.1,
        dtype="float32",
    )
    model = build(MODELS[kind], n_source=4 + LETTERS, n_target=4 + LETTERS)
    assert accuracy(model, unseen) < 30.0
    trainer = Trainer(
        model,
        settings,
        PairBatches(EncodedPairs(side, side), settings.batch_tokens, 1, pad=PAD, bos=BOS),
        PredictTarget(settings.label_smoothing),
        seed=1,
        device=torch.device("cpu"),
    )
    trainer.run(Hook(10**9, lambda _: None), [], leave=lambda _: None)
    assert accuracy(model, unseen) > 90.0
