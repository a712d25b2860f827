"""Where a model looks in the source while it writes a target."""

from __future__ import annotations

import numpy as np
import torch

from headway.base.errors import UserError
from headway.lens.alignment import Alignment
from headway.lens.record import record
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


def alignment(
    made: TextModel, source: str, target: str, *, layer: int | None, head: int | None
) -> Alignment:
    """Where each token of the target looks in the source; see `Translator.attention`."""
    taps = check(made)
    layer = max(0, len(taps) - 2) if layer is None else layer
    if not 0 <= layer < len(taps):
        raise UserError(f"there is no layer {layer}", todo=f"layers are 0 to {len(taps) - 1}")
    batch = made.batch(made.encode([source], [target]), np.zeros(1, np.int64))
    made.model.eval()
    with torch.no_grad(), record(made.model, taps[layer]) as seen:
        made.model(batch.source, batch.source_real, batch.target)
    weights = seen[taps[layer]][-1][0]  # (H, T, S)
    if head is not None and not 0 <= head < len(weights):
        raise UserError(f"there is no head {head}", todo=f"heads are 0 to {len(weights) - 1}")
    chosen = weights.mean(dim=0) if head is None else weights[head]  # (T, S)
    which = f"layer {layer}, " if len(taps) > 1 else ""
    which += "mean of the heads" if head is None and len(weights) > 1 else f"head {head or 0}"
    return Alignment(
        source=made.tokenizers.source.pieces(batch.source[0].tolist()),
        target=made.tokenizers.target.pieces(batch.following[0].tolist()),
        weights=chosen.cpu().numpy(),
        title=which if len(taps) > 1 or len(weights) > 1 else "attention",
    )
