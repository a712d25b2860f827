"""Forced decoding: how likely a model finds texts that it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.batches.pairs import batch_rows
from headway.evaluate.likelihood import Likelihood
from headway.runs.text_model import TextModel
from headway.training.losses import token_statistics


@dataclass(frozen=True)
class TokenScores:
    """A target as ids, the end symbol last; the log-probability of each, in nats.

    `correct` is how many of them were the model's first choice.
    """

    ids: list[int]
    log_probs: list[float]
    correct: int

    @property
    def log_prob(self) -> float:
        """Of the whole target, in nats."""
        return sum(self.log_probs)

    @property
    def likelihood(self) -> Likelihood:
        """The sums."""
        return Likelihood(-self.log_prob, len(self.ids), self.correct)


@torch.no_grad()
def score_tokens(
    made: TextModel,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    tell: Callable[[int], object] | None,
    first: int,
) -> list[TokenScores]:
    """How likely each token of each target is; see `Translator.score_tokens`."""
    pairs = made.encode(sources, targets, first=first)
    found: list[TokenScores] = [TokenScores([], [], 0)] * len(pairs)
    model = made.model
    model.eval()
    lengths = pairs.source.lengths, pairs.target.lengths
    for rows in batch_rows(*lengths, made.recipe.evaluate.batch_tokens, np.arange(len(pairs))):
        batch = made.batch(pairs, rows)
        encoded = model.encode(batch.source, batch.source_real)
        hidden = model.decode(batch.target, encoded)[batch.target_real]
        wanted = batch.following[batch.target_real]
        statistics = token_statistics(hidden, model.head, wanted)
        nll, right = (part.cpu() for part in statistics)
        counts = batch.target_real.sum(dim=1).tolist()
        parts = (torch.split(part, counts) for part in (wanted.cpu(), -nll.double(), right))
        for row, ids, log_probs, hits in zip(rows, *parts, strict=True):
            found[int(row)] = TokenScores(ids.tolist(), log_probs.tolist(), int(hits.sum()))
        if tell:
            tell(len(rows))
    return found
