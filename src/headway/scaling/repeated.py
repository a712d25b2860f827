"""Repeated text: what a second and a hundredth pass are worth (Muennighoff 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headway.scaling.laws import TRAINING, Choice, ParametricLaw, positive


@dataclass(frozen=True, kw_only=True)
class RepeatedLaw(ParametricLaw):
    """Muennighoff 2023: a further pass over a text gives less, a parameter it cannot fill too.

    R_D and R_N are the passes after the first, and their equal for parameters, after which
    1 − 1/e of all that repeating can give has been had.
    """

    R_D: float
    R_N: float

    formula = (
        "L = E + A / N'^alpha + B / D'^beta, D' = U + U·R_D·(1 − e^(−(D/U − 1)/R_D)), "
        "N' likewise with R_N and the size U_N that suits U tokens"
    )
    letters = ("E", "A", "B", "alpha", "beta", "R_D", "R_N")

    def loss(self, params: float, tokens: float, unique: float | None = None) -> float:
        """The loss after so many tokens, of which `unique` are different.

        Without `unique` it is the law for text that never repeats. With it, parameters beyond
        those that suit the text count for less, even if each token is seen once.
        """
        if unique is None:
            return super().loss(params, tokens)
        positive(parameters=params, tokens=tokens, unique_tokens=unique)
        unique = min(unique, tokens)
        # The size whose best training would be on just these tokens.
        balance = (self.alpha * self.A / (self.beta * self.B)) ** (1 / (self.alpha + self.beta))
        suited = min(params, (unique * balance) ** (self.beta / self.alpha) * balance)
        return super().loss(
            effective(params, suited, self.R_N), effective(tokens, unique, self.R_D)
        )

    def trained(self, params: float, tokens: float, unique: float | None = None) -> Choice:
        """A given size and its tokens, with their loss."""
        return self.choice(params, tokens, self.loss(params, tokens, unique))

    def limited(self, flop: float, unique: float) -> Choice:
        """The least loss for a compute and so many different tokens: more passes, fewer parameters.

        There is no closed form: a grid over a factor of 400 both ways, then the valley of its best.
        """
        start = self.optimum(flop)
        if unique >= start.tokens:
            return start

        def loss(log_params: float) -> float:
            params = math.exp(log_params)
            return self.loss(params, flop / (TRAINING * params), unique)

        low, high = math.log(start.params) - 6, math.log(start.params) + 6
        near = min(range(241), key=lambda step: loss(low + (high - low) * step / 240))
        width = (high - low) / 240
        params = math.exp(_least(loss, low + width * (near - 1), low + width * (near + 1)))
        tokens = flop / (TRAINING * params)
        return self.choice(params, tokens, self.loss(params, tokens, unique))


def effective(seen: float, unique: float, decay: float) -> float:
    """What so many seen are worth in unique ones: U + U·R·(1 − e^(−(seen/U − 1)/R)).

    Muennighoff 2023, equation 5; `decay` is R (15.4 for tokens there).
    """
    repeats = max(seen / unique - 1, 0.0)
    return unique + unique * decay * -math.expm1(-repeats / decay)


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is least, by thirds."""
    for _ in range(100):
        third = (high - low) / 3
        if function(low + third) < function(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2
