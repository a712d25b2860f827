"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math

from headway.settings.training import TrainSettings


def learning_rate(settings: TrainSettings, step: int) -> float:
    """The rate of optimiser step `step`, counted from 1; rises linearly over the warm-up.

    `inverse_sqrt`: Vaswani et al. 2017, section 5.3, with its peak as the setting. `cosine`:
    Loshchilov & Hutter 2017. `wsd`, warmup–stable–decay: Hu et al. 2024 (MiniCPM), section 4.
    """
    peak, warmup = settings.learning_rate, settings.warmup
    if step < warmup:
        return peak * step / warmup
    share = 1.0  # of the peak
    if settings.schedule == "inverse_sqrt":
        share = math.sqrt(max(warmup, 1) / step)
    elif settings.schedule != "constant":
        start = warmup
        if settings.schedule == "wsd":
            start = max(warmup, round(settings.steps * (1.0 - settings.decay)))
        done = min(1.0, max(0, step - start) / max(1, settings.steps - start))
        if settings.schedule == "cosine":
            done = 0.5 - 0.5 * math.cos(math.pi * done)
        share = 1.0 - done * (1.0 - settings.final_rate)
    return peak * share
