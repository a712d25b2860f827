"""Approach 3 of Hoffmann 2022: E + A/N^alpha + B/D^beta fitted to the losses of runs."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from headway.base.errors import UserError
from headway.scaling.huber import FLATTEST, STEEPEST, LogSumFit, between
from headway.scaling.laws import TRAINING, ParametricLaw, Range
from headway.scaling.points import Floats, Points, different
from headway.scaling.repeated import effective

LETTERS = ("E", "A", "B", "alpha", "beta")
PASSES = 15.4  # Muennighoff 2023, section 3.1: what R_D is where text repeats
_FEWEST = 6  # runs: one more than there are constants
_DIFFERENT = 3  # sizes, and numbers of tokens
_HELD_OUT = 4.0  # runs with more than the greatest compute over this are forecast from the others
# Where fits begin: the exponents; E, of the least loss; what the size lacks, of the rest.
_EXPONENTS, _FLOORS, _SHARES = (0.1, 0.4, 0.8, 1.6), (0.3, 0.6, 0.9), (0.2, 0.8)


@dataclass(frozen=True)
class ParametricFit:
    """A fitted law, how far each run is from it, and how sure it is.

    `residuals` are ln(loss) − ln(law) of the runs of `points`; `draws` are laws fitted to runs
    drawn anew with replacement, one a row: E, A, B, alpha, beta. `objective` is the sum of Huber
    losses.
    """

    law: ParametricLaw
    points: Points
    residuals: Floats
    objective: float
    draws: Floats
    notices: tuple[str, ...] = ()

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """What 95 % of the draws lie in, of each constant and of beta / (alpha + beta)."""
        if not len(self.draws):
            return {}
        alpha, beta = self.draws[:, 3], self.draws[:, 4]
        columns = np.column_stack((self.draws, beta / (alpha + beta)))
        return dict(zip((*LETTERS, "size_exponent"), between(columns), strict=True))

    def forecast(self, params: float, tokens: float) -> tuple[float, float, float]:
        """The loss of a run not made yet: least, expected, greatest; 95 % are to lie between.

        The draws say how sure the law is there, the residuals how far a run is from a law.
        """
        expected = self.law.loss(params, tokens)
        if not len(self.draws):
            return expected, expected, expected
        E, A, B, alpha, beta = self.draws.T
        laws = E + A / params**alpha + B / tokens**beta
        runs = len(self.points)
        scatter = np.exp(self.residuals * math.sqrt(runs / (runs - len(LETTERS))))
        ((low, high),) = between(np.multiply.outer(laws, scatter).ravel())
        return low, expected, high

    @functools.cached_property
    def left_out(self) -> dict[str, Any] | None:
        """How well the smaller runs alone forecast those of more than a quarter of the compute.

        None where too few or too like ones are left to fit.
        """
        flop = self.points["flop"]
        small = np.flatnonzero(flop <= flop.max() / _HELD_OUT)
        large = np.flatnonzero(flop > flop.max() / _HELD_OUT)
        try:
            law = fit_parametric(self.points.pick(small), resamples=0).law
        except UserError:
            return None
        known = (self.points["params"], worth(self.points), self.points["loss"])
        errors = [law.loss(*place) / loss - 1 for *place, loss in np.array(known)[:, large].T]
        last = int(np.argmax(flop[large]))
        return {
            "fitted": len(small),
            "fitted_up_to_flop": float(flop[small].max()),
            "forecast": len(large),
            "mean_error_percent": 100 * float(np.mean(np.abs(errors))),
            "largest": {
                "flop": float(flop[large][last]),
                "loss": float(known[2][large][last]),
                "error_percent": 100 * float(errors[last]),
            },
        }


def fit_parametric(points: Points, *, resamples: int = 500, seed: int = 1) -> ParametricFit:
    """Fit the law. `seed` draws the runs of `resamples` further fits; the law depends on neither.

    Where `points` say how many tokens were different, D is what the tokens are worth in different
    ones. Raises UserError for too few runs, for too few different sizes or tokens, and for losses
    that fall with neither.
    """
    params, tokens, loss = points["params"], worth(points), points["loss"]
    _check(points, tokens)
    size_mean, data_mean = float(np.log(params).mean()), float(np.log(tokens).mean())
    size, data = np.log(params) - size_mean, np.log(tokens) - data_mean
    one, none = np.ones_like(size), np.zeros_like(size)
    rows = (  # what each term has of ln A and ln B (at the means), ln E, alpha and beta
        (one, none, none, -size, none),
        (none, one, none, none, -data),
        (none, none, one, none, none),
    )
    sums = LogSumFit(np.array([np.stack(row, axis=1) for row in rows]), loss, exponents=2)
    objective, best = sums.best(_starts(float(loss.min()), float(loss.mean())))

    def constants(x: Floats) -> list[float]:
        a, b, e, alpha, beta = x.tolist()
        logs = (e, a + alpha * size_mean, b + beta * data_mean)
        return [*map(math.exp, logs), alpha, beta]

    draws = [constants(x) for x in sums.drawn(best, resamples, seed)]
    E, A, B, alpha, beta = constants(best)
    _refuse_flat(alpha, beta, points)
    law = ParametricLaw(
        name="fitted",
        source=f"fitted to {len(points)} runs of {points.origin}",
        measured=Range(
            params=_ends(params),
            tokens=_ends(tokens),
            flop=_ends(TRAINING * params * tokens),
        ),
        E=E,
        A=A,
        B=B,
        alpha=alpha,
        beta=beta,
    )
    return ParametricFit(
        law=law,
        points=points,
        residuals=sums.residuals(best),
        objective=objective,
        draws=np.array(draws).reshape(-1, len(LETTERS)),
        notices=tuple(_notices(law, float(loss.min()))),
    )


def _ends(values: Floats) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def worth(points: Points) -> Floats:
    """The tokens of each run, in different ones where text was repeated."""
    tokens = points["tokens"]
    if points.unique is None:
        return tokens
    pairs = zip(tokens.tolist(), points.unique.tolist(), strict=True)
    return np.array([effective(seen, unique, PASSES) for seen, unique in pairs])


def _starts(least: float, mean: float) -> list[Floats]:
    """A grid over the exponents, the floor, and how the rest is parted."""
    found = []
    for alpha, beta, floor, share in product(_EXPONENTS, _EXPONENTS, _FLOORS, _SHARES):
        rest = mean - floor * least
        parts = (share * rest, (1 - share) * rest, floor * least)
        found.append(np.array([*map(math.log, parts), alpha, beta]))
    return found


def _check(points: Points, tokens: Floats) -> None:
    if len(points) < _FEWEST:
        raise UserError(
            f"five constants cannot be fitted to {len(points)} runs",
            where=points.origin,
            todo=f"at least {_FEWEST} are needed, and twenty are better",
        )
    for name, values in (("sizes", points["params"]), ("numbers of tokens", tokens)):
        if (found := different(values)) < _DIFFERENT:
            raise UserError(
                f"there are only {found} different {name} (within 1 %)",
                where=points.origin,
                todo=f"at least {_DIFFERENT} are needed to see how the loss depends on them",
            )


def _refuse_flat(alpha: float, beta: float, points: Points) -> None:
    if max(alpha, beta) < FLATTEST:
        raise UserError("these losses fall neither with size nor with tokens", where=points.origin)


def _notices(law: ParametricLaw, least: float) -> list[str]:
    """What should keep a reader from believing the fit."""
    said = []
    if 0.01 * least > law.E:
        said.append("these losses show no floor: E is practically 0")
    for name, exponent in (("alpha", law.alpha), ("beta", law.beta)):
        if not FLATTEST < exponent < 0.99 * STEEPEST:
            said.append(f"{name} = {exponent:.3g} is at its bound: these runs do not determine it")
    return said
