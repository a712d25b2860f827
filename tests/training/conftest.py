"""A trainer of a tiny model on sixty random pairs, which notes what it is given to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.batches.order import Rows
from headway.batches.pairs import EncodedPairs, EncodedSide, PairBatches
from headway.models.build import build
from headway.settings.model import RecurrentSettings, TransformerSettings
from headway.settings.training import TrainSettings
from headway.training.loop import Trainer
from headway.training.objectives import PredictTarget
from headway.training.state import TrainState

Make = Callable[..., Trainer]
VOCABULARY, PAD, BOS, EOS = 19, 0, 2, 3
CPU = torch.device("cpu")

STACK: dict[str, Any] = {
    "d_model": 16,
    "d_feed_forward": 24,
    "n_heads": 2,
    "n_encoder_layers": 1,
    "n_decoder_layers": 1,
    "max_length": 32,
}
RECURRENT: dict[str, Any] = {"d_embedding": 8, "d_hidden": 12}
MODELS: dict[str, TransformerSettings | RecurrentSettings] = {
    "transformer": TransformerSettings(**STACK, dropout=0.2, attention_dropout=0.1),
    "transformer-plain": TransformerSettings(**STACK, dropout=0.0),
    "transformer-float64": TransformerSettings(**STACK, dropout=0.0, norm="none"),
    "recurrent": RecurrentSettings(**RECURRENT, dropout=0.2, score="additive"),
    "recurrent-float64": RecurrentSettings(**RECURRENT, dropout=0.0, score="additive"),
    "recurrent-bare-float64": RecurrentSettings(**RECURRENT, dropout=0.0, cell="lstm"),
}


@dataclass(frozen=True)
class Noted(PairBatches):
    """An order of batches that keeps a list of the rows it gave."""

    seen: list[list[int]] = field(default_factory=list)

    def after(self, epoch: int, batch: int) -> Iterator[tuple[int, int, Rows]]:
        for item in super().after(epoch, batch):
            self.seen.append(item[2].tolist())
            yield item


def random_pairs(n: int = 60, longest: int = 9) -> EncodedPairs:
    random = np.random.default_rng(0)

    def side() -> EncodedSide:
        lengths = random.integers(1, longest, n)
        return EncodedSide.of([[*random.integers(4, VOCABULARY, n), EOS] for n in lengths])

    return EncodedPairs(side(), side())


@pytest.fixture(scope="session")
def pairs() -> EncodedPairs:
    """Sources and targets of 2 to 9 ids, the end symbol included."""
    return random_pairs()


@pytest.fixture
def make(pairs: EncodedPairs) -> Make:
    """Makes a trainer; keywords beyond those named are training settings."""

    def made(
        model: str = "transformer",
        *,
        state: TrainState | None = None,
        data: EncodedPairs = pairs,
        seed: int = 1,
        weights_seed: int = 1,
        **settings: Any,
    ) -> Trainer:
        train = TrainSettings(
            **{
                "steps": 8,
                "batch_tokens": 60,
                "learning_rate": 1e-2,
                "warmup": 4,
                "dtype": "float32",
                **settings,
            }
        )
        network = build(MODELS[model], n_source=VOCABULARY, n_target=VOCABULARY, seed=weights_seed)
        if model.endswith("float64"):
            network.double()
        batches = Noted(data, train.batch_tokens, seed, pad=PAD, bos=BOS)
        objective = PredictTarget(train.label_smoothing)
        return Trainer(network, train, batches, objective, seed=seed, device=CPU, state=state)

    return made


@pytest.fixture
def weights_of() -> Callable[[Trainer], dict[str, Tensor]]:
    """Copies of a trainer's weights and optimiser state, to compare bit for bit."""
    from headway.training.optimizer import optimizer_tensors

    def copied(trainer: Trainer) -> dict[str, Tensor]:
        state = optimizer_tensors(trainer.optimizers, trainer.model)
        both = {**trainer.model.state_dict(), **state}
        return {name: value.detach().clone() for name, value in both.items()}

    return copied
