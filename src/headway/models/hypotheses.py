"""Hypotheses of one source share what is known of it, instead of carrying a copy each."""

from __future__ import annotations

import torch
from torch import Tensor


def sources_of(rows: Tensor, n: int, n_sources: int) -> Tensor | None:
    """Which sources the chosen ones `rows` (M,) of `n` hypotheses continue; None: all as they are.

    The `n` hypotheses stand source by source, equally many of each. If that holds of the chosen
    ones too, there is one entry a source, else one a hypothesis. On an accelerator it is always
    one a hypothesis, for to look would be to wait for it.
    """
    sources = rows // (n // n_sources)  # (M,)
    if rows.device.type != "cpu":
        return sources
    groups = torch.unique_consecutive(sources)
    if len(groups) and len(sources) % len(groups) == 0:
        alike = groups.repeat_interleave(len(sources) // len(groups))
        sources = groups if torch.equal(alike, sources) else sources
    unchanged = len(sources) == n_sources and torch.equal(sources, torch.arange(n_sources))
    return None if unchanged else sources
