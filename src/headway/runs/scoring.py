"""Forced decoding: how likely a model finds texts that it is given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from headway.batches.pairs import batch_rows
from headway.evaluate.likelihood import Likelihood
from headway.runs.text_model import TextModel
from headway.training.losses import token_statistics


@torch.no_grad()
def likelihoods(made: TextModel, sources: Sequence[str], targets: Sequence[str]) -> list[Likelihood]:
    """How likely each target is given its source; from plain negative log-likelihood."""
    pairs = made.encode(sources, targets)
    found = [Likelihood()] * len(pairs)
    model = made.model
    model.eval()
    lengths = pairs.source.lengths, pairs.target.lengths
    for rows in batch_rows(*lengths, made.recipe.evaluate.batch_tokens, np.arange(len(pairs))):
        batch = made.batch(pairs, rows)
        encoded = model.encode(batch.source, batch.source_real)
        hidden = model.decode(batch.target, encoded)[batch.target_real]
        wanted = batch.following[batch.target_real]
        statistics = token_statistics(hidden, model.head.weight, wanted)
        nll, right = (part.cpu() for part in statistics)
        counts = batch.target_real.sum(dim=1).tolist()
        parts = zip(rows, torch.split(nll, counts), torch.split(right, counts), strict=True)
        for row, each, hits in parts:
            found[int(row)] = Likelihood(float(each.double().sum()), len(each), int(hits.sum()))
    return found
