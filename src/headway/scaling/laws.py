"""Laws of the loss: formula, constants, where they were measured, and what follows from them.

Letters are those of the papers: `N` parameters, `D` training tokens, `C` training FLOPs with
C = 6·N·D (2 forward and 4 backward a parameter and token). Losses are nats a token. Constants
belong to the tokeniser and the text of their paper: what carries over is the shape. The published
laws are in `headway.scaling.published`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from headway.base.errors import UserError

TRAINING = 6.0  # FLOPs a parameter and training token
SERVING = 2.0  # FLOPs a parameter and token read or written later
PF_DAY = 8.64e19  # FLOPs of 10^15 a second for a day


def training_flop(params: float, tokens: float) -> float:
    """FLOPs of a training without attention's quadratic term, C = 6·N·D."""
    positive(parameters=params, tokens=tokens)
    return TRAINING * params * tokens


def positive(**values: float) -> None:
    """Raise UserError for the first value that is not a number above 0."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise UserError(f"{name.replace('_', ' ')} must be a number above 0, not {value:g}")


@dataclass(frozen=True)
class Range:
    """The least and the greatest of what a law was measured on; None where nothing is known."""

    params: tuple[float, float] | None = None
    tokens: tuple[float, float] | None = None
    flop: tuple[float, float] | None = None

    def beyond(self, **question: float) -> float:
        """How many times `params`, `tokens` or `flop` are beyond it, at the most; 1 is inside."""
        return max((factor for *_, factor in self._beyond(question)), default=1.0)

    def outside(self, **question: float) -> tuple[str, ...]:
        """One sentence for each of `params`, `tokens`, `flop` that lies outside; often none."""
        units = {"params": "parameters", "tokens": "training tokens", "flop": "training FLOPs"}
        return tuple(
            f"{value:.3g} {units[name]} are {'below' if value < bound else 'above'} {bound:.3g}, "
            f"the last that the law was measured at (a factor of {factor:.3g})"
            for name, value, bound, factor in self._beyond(question)
        )

    def _beyond(self, question: dict[str, float]) -> Iterator[tuple[str, float, float, float]]:
        for name, value in question.items():
            known: tuple[float, float] | None = getattr(self, name)
            if known is not None and not known[0] <= value <= known[1]:
                bound = known[0] if value < known[0] else known[1]
                yield name, value, bound, max(value / bound, bound / value)


@dataclass(frozen=True)
class Choice:
    """A size and its training tokens, with the loss that a law expects of them (None if unknown).

    `outside` says where the law was not measured.
    """

    params: float
    tokens: float
    loss: float | None = None
    outside: tuple[str, ...] = ()

    @property
    def flop(self) -> float:
        """Training FLOPs."""
        return training_flop(self.params, self.tokens)

    @property
    def tokens_per_param(self) -> float:
        """Training tokens a parameter."""
        return self.tokens / self.params


@dataclass(frozen=True, kw_only=True)
class Law:
    """What every law says of itself. `counted` says which parameters its N counts."""

    name: str
    source: str
    measured: Range = Range()
    counted: str = "all parameters"

    formula: ClassVar[str]
    letters: ClassVar[tuple[str, ...]]

    @property
    def constants(self) -> dict[str, float]:
        """Its numbers by the letters of the formula."""
        return {letter: getattr(self, letter) for letter in self.letters}

    def choice(self, params: float, tokens: float, loss: float | None = None) -> Choice:
        """A choice with what this law has to say of it. Raises UserError for one of no size."""
        flop = training_flop(params, tokens)
        outside = self.measured.outside(params=params, tokens=tokens, flop=flop)
        return Choice(params, tokens, loss, outside)


@dataclass(frozen=True, kw_only=True)
class PowerLaw(Law):
    """A loss that falls with one quantity alone, where nothing else holds it back."""

    x: str  # what it falls with: params, tokens or flop
    scale: float
    alpha: float
    E: float = 0.0

    formula = "L(x) = E + (scale / x)^alpha"
    letters = ("E", "scale", "alpha")

    def loss(self, x: float) -> float:
        """The loss at `x`."""
        positive(**{self.x: x})
        return self.E + power(self.scale / x, self.alpha)

    def needed(self, loss: float) -> float:
        """The `x` that gives a loss. Raises UserError for one at or below E."""
        x = self.scale * power(above_floor(loss, self.E, self.name), -1 / self.alpha)
        positive(**{self.x: x})
        return x


@dataclass(frozen=True, kw_only=True)
class Allocation(Law):
    """How the best size grows with compute; it says nothing of the loss."""

    k: float
    a: float

    formula = "N = k · C^a, D = C / (6·N)"
    letters: ClassVar[tuple[str, ...]] = ("k", "a")

    def optimum(self, flop: float) -> Choice:
        """The best size and its tokens for a compute."""
        positive(FLOPs=flop)
        params = self.k * flop**self.a
        return self.choice(params, flop / (TRAINING * params))

    def suits(self, params: float) -> Choice:
        """The tokens with which a size is the best for its compute."""
        positive(parameters=params)
        flop = power(params / self.k, 1 / self.a)
        return self.choice(params, flop / (TRAINING * params))


@dataclass(frozen=True, kw_only=True)
class KaplanLaw(Allocation):
    """Kaplan 2020: one loss of size and data, and how the best size grows with compute."""

    N_c: float
    D_c: float
    alpha_N: float
    alpha_D: float

    formula = "L(N, D) = ((N_c / N)^(alpha_N / alpha_D) + D_c / D)^alpha_D, N = k · C^a"
    letters = ("N_c", "D_c", "alpha_N", "alpha_D", "k", "a")

    def loss(self, params: float, tokens: float) -> float:
        """The loss of a size trained on so many different tokens until it stops falling."""
        positive(parameters=params, tokens=tokens)
        size = (self.N_c / params) ** (self.alpha_N / self.alpha_D)
        return power(size + self.D_c / tokens, self.alpha_D)

    def trained(self, params: float, tokens: float) -> Choice:
        """A given size and its tokens, with their loss."""
        return self.choice(params, tokens, self.loss(params, tokens))


@dataclass(frozen=True, kw_only=True)
class ParametricLaw(Law):
    """What the size lacks and what the data lacks, added to a loss that nothing removes (E)."""

    E: float
    A: float
    B: float
    alpha: float
    beta: float

    formula = "L(N, D) = E + A / N^alpha + B / D^beta"
    letters: ClassVar[tuple[str, ...]] = ("E", "A", "B", "alpha", "beta")

    @property
    def size_exponent(self) -> float:
        """The a of N ∝ C^a: beta / (alpha + beta)."""
        return self.beta / (self.alpha + self.beta)

    def loss(self, params: float, tokens: float) -> float:
        """The loss of a size after so many tokens, none of them twice."""
        positive(parameters=params, tokens=tokens)
        size, data = power(params, self.alpha), power(tokens, self.beta)
        return self.E + self.A / size + self.B / data

    def trained(self, params: float, tokens: float) -> Choice:
        """A given size and its tokens, with their loss."""
        return self.choice(params, tokens, self.loss(params, tokens))

    def optimum(self, flop: float) -> Choice:
        """The least loss for a compute: where both terms gain the same (Hoffmann, eq. 4)."""
        positive(FLOPs=flop)
        ratio = self.alpha * self.A / (self.beta * self.B)
        balance = power(ratio, 1 / (self.alpha + self.beta))
        params = balance * (flop / TRAINING) ** self.size_exponent
        return self.trained(params, flop / (TRAINING * params))

    def suits(self, params: float) -> Choice:
        """The tokens with which a size is the best for its compute."""
        positive(parameters=params)
        ratio = self.beta * self.B / (self.alpha * self.A)
        return self.trained(params, power(ratio * power(params, self.alpha), 1 / self.beta))

    def tokens_for(self, params: float, loss: float) -> Choice:
        """How long a size must be trained for a loss. Raises UserError if it cannot reach it."""
        positive(parameters=params)
        best = self.E + self.A / params**self.alpha
        left = above_floor(loss, best, self.name, f"at {params:.3g} parameters")
        return self.choice(params, power(self.B / left, 1 / self.beta), loss)

    def params_for(self, tokens: float, loss: float) -> Choice:
        """How large a model must be for a loss with so many tokens. Raises UserError likewise."""
        positive(tokens=tokens)
        best = self.E + self.B / tokens**self.beta
        left = above_floor(loss, best, self.name, f"at {tokens:.3g} tokens")
        return self.choice(power(self.A / left, 1 / self.alpha), tokens, loss)

    def cheapest(self, loss: float) -> Choice:
        """The least training compute for a loss. Raises UserError for one at or below E."""
        left = above_floor(loss, self.E, self.name)
        params = power(self.A * (1 + self.alpha / self.beta) / left, 1 / self.alpha)
        tokens = power(self.B * (1 + self.beta / self.alpha) / left, 1 / self.beta)
        return self.choice(params, tokens, loss)

    def served(self, loss: float, served: float, *, price: float = 1.0) -> Choice:
        """The least training and serving compute for a loss: 6·N·D + price·2·N·(tokens served).

        Sardana 2023, section 2: a smaller model is trained for longer, since each token that it
        reads or writes later is cheaper. `price` is what a FLOP of serving costs beside one of
        training (section 3 there): serving uses a machine less well.
        """
        start = self.cheapest(loss)
        if served == 0:
            return start
        positive(served=served, price=price)
        later = SERVING * price * served

        def slope(log_params: float) -> float:  # of the cost along ln N, divided by N
            size = self.A * math.exp(-self.alpha * log_params)
            left = loss - self.E - size
            tokens = power(self.B / left, 1 / self.beta)
            return TRAINING * tokens * (1 - self.alpha * size / (self.beta * left)) + later

        least = math.log(self.A / (loss - self.E)) / self.alpha
        return self.tokens_for(math.exp(_zero(slope, least, math.log(start.params))), loss)


def power(base: float, exponent: float) -> float:
    """`base` to the `exponent`; infinite where it is more than a float holds."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def above_floor(loss: float, floor: float, where: str, of: str = "") -> float:
    """How far a wanted loss is above what can be had; UserError if it is not above it."""
    positive(loss=loss)
    if loss <= floor:
        raise UserError(
            f"no training reaches a loss of {loss:g}{f' {of}' if of else ''}: by this law it "
            f"stays above {floor:.4g}",
            where=where,
            todo="ask for a higher loss",
        )
    return loss - floor


def _zero(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a growing function passes 0, by halving; `low` itself is not asked."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return high
