"""Sums of powers fitted to losses: Huber loss of the logs, log-sum-exp, L-BFGS with its gradient.

As in Hoffmann 2022, section 3.3 and D.2, with delta 1e-3. Two things keep a fit from ending early,
as the paper's own did (Besiroglu 2024): the losses are summed, in units of delta, so that they are
large beside the tolerance of the optimiser; and starts are parts of the measured losses, with the
logs of sizes and tokens from their means, so that none begins where the law is flat.
benchmarks/scaling_fit.py measures both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.base.optional import optional
from headway.scaling.points import Floats

DELTA = 1e-3
STEEPEST = 5.0  # of an exponent
FLATTEST = 1e-2  # of an exponent with which anything falls: a factor of 1.05 in 100
INSIDE = 95.0  # percent that an interval holds
_POLISHED = 12  # starts


class LogSumFit:
    """Losses as a sum of K terms exp(t_k · x), t_k a row a run: (K, runs, constants).

    The last `exponents` of the constants are exponents, which stay above 0.
    """

    def __init__(self, terms: Floats, loss: Floats, *, exponents: int) -> None:
        self.shape = terms.shape
        self.terms = np.ascontiguousarray(terms.reshape(-1, terms.shape[2]))
        self.loss = np.log(loss)
        self.bounds = [(-30.0, 30.0)] * (terms.shape[2] - exponents)
        self.bounds += [(1e-3, STEEPEST)] * exponents
        self.scipy = optional("scipy.optimize", extra="scaling", where="scaling fit")

    def residuals(self, x: Floats) -> Floats:
        """ln(loss) − ln(law) of each run."""
        logs = (self.terms @ x).reshape(self.shape[:2])
        return np.asarray(self.loss - np.logaddexp.reduce(logs, axis=0))

    def value(self, x: Floats, weights: Floats) -> tuple[float, Floats]:
        """The weighted sum of Huber losses over DELTA, and its gradient."""
        logs = (self.terms @ x).reshape(self.shape[:2])
        most = logs.max(axis=0)
        parts = np.exp(logs - most)
        whole = parts.sum(axis=0)
        off = most + np.log(whole) - self.loss
        near = np.minimum(np.maximum(off, -DELTA), DELTA)
        pull = weights * near / DELTA
        return float(pull @ (off - near / 2)), (parts * (pull / whole)).ravel() @ self.terms

    def minimise(self, start: Floats, weights: Floats) -> tuple[float, Floats]:
        """The least value near a start, and where it is."""
        options = {"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-6}
        end: Any = self.scipy.minimize(
            self.value,
            start,
            args=(weights,),
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options=options,
        )
        return float(end.fun), end.x

    def best(self, starts: Sequence[Floats]) -> tuple[float, Floats]:
        """The least of what the most promising starts lead to: sum of Huber losses, constants."""
        once = np.ones(self.shape[1])
        ranked = sorted(starts, key=lambda start: self.value(start, once)[0])[:_POLISHED]
        ends = [self.minimise(start, once) for start in ranked]
        value, x = min(ends, key=lambda end: end[0])
        return value * DELTA, x

    def drawn(self, x: Floats, resamples: int, seed: int) -> list[Floats]:
        """The constants of runs drawn anew with replacement, each fit begun at `x`."""
        rng, runs = np.random.default_rng(seed), self.shape[1]
        draws = (np.bincount(rng.integers(0, runs, runs), minlength=runs) for _ in range(resamples))
        return [self.minimise(x, draw.astype(np.float64))[1] for draw in draws]


def between(draws: Floats) -> list[tuple[float, float]]:
    """What 95 % of the draws lie in, for each column."""
    low, high = np.percentile(draws, ((100 - INSIDE) / 2, (100 + INSIDE) / 2), axis=0)
    return list(zip(np.atleast_1d(low).tolist(), np.atleast_1d(high).tolist(), strict=True))
