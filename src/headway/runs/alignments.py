"""Where a model looks in the source while it writes a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from headway.base.errors import UserError
from headway.batches.pairs import batch_rows
from headway.lens.alignment import Alignment
from headway.lens.record import record
from headway.lens.words import token_words
from headway.runs.text_model import TextModel


def check(made: TextModel) -> list[str]:
    """The taps on its attention, one a layer; UserError if the model has none."""
    taps = made.model.alignment_taps()
    if not taps:
        raise UserError(
            "this model has no attention between source and target",
            todo="train one with a score, such as model.score = 'additive'",
        )
    return taps


@torch.no_grad()
def alignments(
    made: TextModel,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    layer: int | None,
    head: int | None,
) -> list[Alignment]:
    """Where each token of each target looks in its source; see `Translator.attention`."""
    taps = check(made)
    layer = max(0, len(taps) - 2) if layer is None else layer
    if not 0 <= layer < len(taps):
        raise UserError(f"there is no layer {layer}", todo=f"layers are 0 to {len(taps) - 1}")
    pairs = made.encode(sources, targets)
    source_spans = made.tokenizers.source.spans(sources)
    target_spans = made.tokenizers.target.spans(targets)
    found: dict[int, Alignment] = {}
    made.model.eval()
    lengths = pairs.source.lengths, pairs.target.lengths
    for rows in batch_rows(*lengths, made.recipe.evaluate.batch_tokens, np.arange(len(pairs))):
        batch = made.batch(pairs, rows)
        with record(made.model, taps[layer]) as seen:
            made.model.decode(batch.target, made.model.encode(batch.source, batch.source_real))
        # one call a position with input feeding, else one in all
        weights = torch.cat(seen[taps[layer]], dim=2)  # (B, H, T, S)
        chosen = _of_head(weights, head).cpu().numpy()  # (B, T, S)
        for place, row in enumerate(rows.tolist()):
            S, T = int(lengths[0][row]), int(lengths[1][row])
            found[row] = Alignment(
                source=made.tokenizers.source.pieces(batch.source[place, :S].tolist()),
                target=made.tokenizers.target.pieces(batch.following[place, :T].tolist()),
                weights=chosen[place, :T, :S],
                title=_title(layer, len(taps), head, weights.shape[1]),
                layer=layer,
                heads=tuple(range(weights.shape[1])) if head is None else (head,),
                source_words=token_words(sources[row], source_spans[row][: S - 1]),
                target_words=token_words(targets[row], target_spans[row][: T - 1]),
            )
    return [found[row] for row in range(len(pairs))]


def _of_head(weights: torch.Tensor, head: int | None) -> torch.Tensor:
    """(B, H, T, S) -> (B, T, S): of one head, or the mean of all."""
    H = weights.shape[1]
    if head is not None and not 0 <= head < H:
        raise UserError(f"there is no head {head}", todo=f"heads are 0 to {H - 1}")
    return weights.mean(dim=1) if head is None else weights[:, head]


def _title(layer: int, n_layers: int, head: int | None, n_heads: int) -> str:
    if n_layers == n_heads == 1:
        return "attention"
    which = "mean of the heads" if head is None and n_heads > 1 else f"head {head or 0}"
    return f"layer {layer}, {which}" if n_layers > 1 else which
