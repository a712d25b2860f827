"""The fit of Chinchilla's loss: constants, seconds, seeds, starts; and exponents that are known.

    .venv/bin/python benchmarks/scaling_fit.py --json benchmarks/results/scaling-fit.json

The table is that of Epoch AI (arXiv 2404.10102), read off figure 4 of arXiv 2203.15556, under
$HEADWAY_DATA/scaling; the five runs of highest loss are left out, tokens are FLOP / 6N. The command
is timed as a user runs it, with all its imports, for several seeds. The run of most compute is
forecast, with the interval, from those of at most a quarter of it. Then 150 starts of the grid of
Hoffmann 2022 (D.2) are followed with the losses scaled in three ways: how many arrive.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.files import read_json, to_json, write_atomic
from headway.base.runtime import environment
from headway.scaling.frontier import fit_envelope, fit_isoflop
from headway.scaling.huber import DELTA, LogSumFit
from headway.scaling.laws import TRAINING, ParametricLaw
from headway.scaling.parametric import fit_parametric
from headway.scaling.points import Points, read_csv

HIGHEST, SEEDS, STARTS = 5, (1, 2, 3), 150
NEAR = 1e-6  # of the least sum: what counts as arrived


def by_command(table: Path, law: str, seed: int) -> dict[str, Any]:
    """What `headway scaling fit` gives, and how long it takes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "fit.json"
        command = [sys.executable, "-m", "headway", "scaling", "fit", str(table), "--law", law]
        command += ["--drop-highest", str(HIGHEST), "--seed", str(seed), "--json", str(out)]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.perf_counter() - start
        found = read_json(out)
    found.pop("each", None)  # the rows of the table
    found.pop("source")  # its path
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seed": seed, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), **found}


def forecast(points: Points) -> dict[str, float]:
    """The run of most compute as the runs of at most a quarter of it forecast it."""
    flop = points["flop"]
    last = int(np.argmax(flop))
    smaller = fit_parametric(points.pick(np.flatnonzero(flop <= flop[last] / 4)), seed=SEEDS[0])
    low, expected, high = smaller.forecast(points["params"][last], points["tokens"][last])
    fitted = {"fitted": len(smaller.points), "resamples": len(smaller.draws)}
    measured = {"flop": float(flop[last]), "measured": float(points["loss"][last])}
    return {**fitted, **measured, "expected": expected, "low": low, "high": high}


def arrivals(points: Points) -> dict[str, float]:
    """Of starts of the paper's grid, the share that ends where the sum is least."""
    size, data = np.log(points["params"]), np.log(points["tokens"])
    one, none = np.ones_like(size), np.zeros_like(size)
    rows = (
        (one, none, none, -size, none),
        (none, one, none, none, -data),
        (none, none, one, none, none),
    )
    sums = LogSumFit(np.array([np.stack(row, axis=1) for row in rows]), points["loss"], exponents=2)
    exponents, floors, scales = np.arange(0, 2.5, 0.5), np.arange(-1, 1.5, 0.5), np.arange(0, 30, 5)
    grid = np.array(list(product(scales, scales, floors, exponents, exponents)))
    starts = np.random.default_rng(1).choice(grid, STARTS, replace=False)
    weights = np.ones(len(points))
    ways = {
        "mean": (DELTA / len(points), {}),
        "sum": (DELTA, {}),
        "sum over delta": (1.0, {"ftol": 1e-12, "gtol": 1e-6}),
    }
    ends = {}
    for way, (factor, options) in ways.items():

        def scaled(x: Any, factor: float = factor) -> tuple[float, Any]:
            value, gradient = sums.value(x, weights)
            return value * factor, gradient * factor

        found = [
            sums.scipy.minimize(scaled, x, jac=True, method="L-BFGS-B", options=options).x
            for x in starts
        ]
        ends[way] = np.array([sums.value(x, weights)[0] for x in found])
    least = min(values.min() for values in ends.values())
    return {way: float((values < least * (1 + NEAR)).mean()) for way, values in ends.items()}


def recovered(alpha: float, beta: float) -> dict[str, float]:
    """Exponents found by approaches 1 and 2 on losses that a known law made, without noise."""
    B = alpha * 480 * 2e10**beta / (beta * 1e9**alpha)  # 1e9 parameters suit 2e10 tokens
    law = ParametricLaw(name="known", source="", E=1.8, A=480, B=B, alpha=alpha, beta=beta)
    budgets, curves = [], []
    for flop in np.geomspace(1e18, 1e21, 7):
        best = law.optimum(float(flop)).params
        budgets += [(size, flop / (TRAINING * size)) for size in best * np.geomspace(0.25, 4, 9)]
    for size in np.geomspace(1e7, 1e10, 25):
        curves += [(size, tokens) for tokens in size * np.geomspace(0.1, 4e3, 100)]

    def points(rows: list[tuple[float, float]]) -> Points:
        size, tokens = np.array(rows).T
        loss = np.array([law.loss(*row) for row in rows])
        known = {"params": size, "tokens": tokens, "flop": TRAINING * size * tokens, "loss": loss}
        return Points("made", [""] * len(rows), known)

    return {
        "known": law.size_exponent,
        "isoflop": fit_isoflop(points(budgets), resamples=0).law.a,
        "envelope": fit_envelope(points(curves)).law.a,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    table = Path(os.environ["HEADWAY_DATA"], "scaling", "chinchilla_figure4_epoch.csv")
    found = {
        "left_out_highest": HIGHEST,
        "chinchilla": [by_command(table, "chinchilla", seed) for seed in SEEDS],
        "forecast": forecast(read_csv(table).without_highest(HIGHEST)),
        "isoflop": by_command(table, "isoflop", SEEDS[0]),
        "power": by_command(table, "power", SEEDS[0]),
        "starts_that_arrive": arrivals(read_csv(table).without_highest(HIGHEST)),
        "recovered": [recovered(*pair) for pair in ((0.35, 0.36), (0.34, 0.28), (0.3, 0.4))],
    }
    print(json.dumps(found, indent=1))
    if arguments.json:
        write_atomic(arguments.json, to_json({"machine": environment(), **found}))


if __name__ == "__main__":
    main()
