"""How probable a model finds a text: plain negative log-likelihood, never the smoothed loss."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Likelihood:
    """A sum over target tokens, so that batches add up exactly: `sum(parts, Likelihood())`.

    `nll` is the sum of -log p(token) in nats over real targets (no padding, no label smoothing),
    `tokens` their number, `correct` how many of them were the model's first choice.
    """

    nll: float = 0.0
    tokens: int = 0
    correct: int = 0

    def __add__(self, other: Likelihood) -> Likelihood:
        return Likelihood(
            self.nll + other.nll, self.tokens + other.tokens, self.correct + other.correct
        )

    @property
    def log_prob(self) -> float:
        """Of all the targets together, in nats."""
        return -self.nll

    @property
    def greedy(self) -> bool:
        """Whether each target was the model's first choice, so that greedy decoding gives them."""
        return self.correct == self.tokens

    @property
    def mean(self) -> float:
        """Nats a token; not a number if there are no tokens."""
        return self.nll / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """exp(mean); infinite where that is beyond a float."""
        try:
            return math.exp(self.mean)
        except OverflowError:
            return math.inf

    @property
    def token_accuracy(self) -> float:
        """Tokens whose first choice was right, in percent; not a number without tokens."""
        return 100.0 * self.correct / self.tokens if self.tokens else math.nan
