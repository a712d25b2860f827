"""How well an encoder guesses what was masked, and whether one text follows another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headway.batches.masked import MaskedBatch
from headway.batches.sentences import UNASKED
from headway.evaluate.likelihood import Likelihood
from headway.models.encoder import MaskedLanguageModel
from headway.training.losses import token_statistics


@torch.no_grad()
def masked_likelihood(
    model: MaskedLanguageModel, batches: Sequence[MaskedBatch]
) -> tuple[Likelihood, Likelihood]:
    """Of the chosen tokens, and of what the second texts are, where that is asked."""
    model.eval()
    masked, follows = Likelihood(), Likelihood()
    for batch in batches:
        batch = batch.to(model.masked.output.weight.device)
        hidden = model.encoder(batch.ids, batch.real, batch.segments)
        chosen = model.masked.transformed(hidden[batch.chosen])
        masked += _likelihood(model.masked.output, chosen, batch.targets)
        if batch.relation is not None and model.follows is not None:
            asked = batch.relation != UNASKED
            pooled = model.encoder.pool(hidden)[asked]
            follows += _likelihood(model.follows, pooled, batch.relation[asked])
    return masked, follows


def _likelihood(head: nn.Linear, hidden: Tensor, targets: Tensor) -> Likelihood:
    if not len(targets):
        return Likelihood()
    nll, right = token_statistics(hidden, head, targets)
    return Likelihood(float(nll.double().sum()), len(targets), int(right.sum()))
