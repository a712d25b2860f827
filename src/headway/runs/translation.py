"""A translation as a caller gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.decode.loops import Stop, how_it_stopped
from headway.decode.steps import Hypothesis, length_divisor
from headway.tokens.sides import SideTokenizer


@dataclass(frozen=True)
class Translation:
    """One translation with its log-probability in nats, and the score that ranks it.

    `stop` says why it is no longer: `end`, it was complete; `limit`, it was cut at the most tokens
    that it may have; `loop`, it was cut and repeats itself.
    """

    text: str
    log_prob: float
    score: float
    stop: Stop = "end"


NOTHING = Translation("", 0.0, 0.0)
"""What becomes of an empty text."""


def translations(hypotheses: Sequence[Hypothesis], tokenizer: SideTokenizer) -> list[Translation]:
    """The texts of hypotheses and what is known of each."""
    texts = tokenizer.decode([each.ids for each in hypotheses])
    return [
        Translation(text, each.log_prob, each.score, how_it_stopped(each))
        for text, each in zip(texts, hypotheses, strict=True)
    ]


def ranked(hypothesis: Hypothesis, length_penalty: float) -> Hypothesis:
    """The same with the score that beam search would rank it by."""
    n = len(hypothesis.ids) + hypothesis.ended
    return replace(hypothesis, score=hypothesis.log_prob / length_divisor(n, length_penalty))
