"""How a hypothesis stopped: by itself, at its limit, or at its limit while it went in circles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headway.decode.steps import Hypothesis

Stop = Literal["end", "limit", "loop"]

_ROUNDS = 3  # a phrase may well come twice
_TOKENS = 12  # and a row of dots or a long number is no loop yet


def how_it_stopped(hypothesis: Hypothesis) -> Stop:
    """`end`: by the eos. `limit`: it was cut. `loop`: it was cut and repeats itself at its end."""
    if hypothesis.ended:
        return "end"
    return "loop" if goes_in_circles(hypothesis.ids) else "limit"


def goes_in_circles(ids: Sequence[int]) -> bool:
    """Whether the last 12 tokens or more are one piece of text three times or more.

    Of fewer than 12 tokens, all must be.
    """
    n = len(ids)
    for period in range(1, n // _ROUNDS + 1):
        tail = max(_ROUNDS * period, min(n, _TOKENS))
        if ids[n - tail : n - period] == ids[n - tail + period :]:
            return True
    return False
