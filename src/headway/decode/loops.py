"""How a hypothesis stopped: by itself, at its limit, or at its limit after going in circles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headway.decode.steps import Hypothesis

Stop = Literal["end", "limit", "loop"]

_ROUNDS = 3  # a phrase may well come twice
_TOKENS = 12  # and a row of dots or a long number is no loop yet


def how_it_stopped(hypothesis: Hypothesis) -> Stop:
    """`end`: by the eos. `limit`: it was cut. `loop`: it was cut, and had been repeating itself."""
    if hypothesis.ended:
        return "end"
    return "loop" if goes_in_circles(hypothesis.ids) else "limit"


def goes_in_circles(ids: Sequence[int]) -> bool:
    """Whether 12 tokens or more on end, anywhere, are one piece of text three times or more.

    Of fewer than 12 tokens, all must be. It need not be at the end: a model that is caught in a
    loop may vary a round.
    """
    n = len(ids)
    for period in range(1, n // _ROUNDS + 1):
        needed = max(_ROUNDS * period, min(n, _TOKENS)) - period
        alike = 0  # tokens on end that are the same as a period before
        for place in range(period, n):
            alike = alike + 1 if ids[place] == ids[place - period] else 0
            if alike == needed:
                return True
    return False
