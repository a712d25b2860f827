"""How likely a language model finds documents."""

from __future__ import annotations

import torch

from headway.batches.packed import Packing, packed
from headway.batches.pairs import EncodedSide
from headway.evaluate.likelihood import Likelihood
from headway.models.decoder import Decoder
from headway.training.losses import token_statistics


@torch.no_grad()
def text_likelihood(
    model: Decoder, documents: EncodedSide, *, length: int, batch_tokens: int
) -> Likelihood:
    """Of every token but the first of each document, in rows of `length` tokens end to end.

    A token sees what is before it in its row and its document; the rows do not overlap, so that
    the first tokens of a row know little: with longer rows a text is likelier.
    """
    model.eval()
    device = next(model.parameters()).device
    rows, found = Packing(documents, length, seed=None), Likelihood()
    together = max(1, batch_tokens // length)
    for begin in range(0, rows.n_rows, together):
        places = range(begin, min(begin + together, rows.n_rows))
        batch = packed([rows.row(place) for place in places], length, pad=0).to(device)
        hidden = model.hidden(batch.ids, numbers=batch.numbers)[batch.predicted]
        targets = batch.following[batch.predicted]
        nll, right = token_statistics(hidden, model.head, targets)
        found += Likelihood(float(nll.double().sum()), len(targets), int(right.sum()))
        rows.release()
    return found
