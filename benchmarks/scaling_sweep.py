"""A sweep on two cores: the law of tiny models on Python's sources, and a forecast that is checked.

    python benchmarks/scaling_sweep.py --out runs/law \\
        --json benchmarks/results/sweep-stdlib.json --html docs/how-to/sweep.html

25 runs of lm/bytes at five budgets over two orders of magnitude of compute, two at a time; then one
of four times the greatest budget, whose loss is written down before it is made. It can be stopped
and goes on. `--small` makes the same of a few seconds' runs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from headway.base.files import read_json, to_json, write_atomic
from headway.base.runtime import environment
from headway.scaling.grid import budgets_of, sizes_of
from headway.scaling.sweep import begin_sweep
from headway.scaling.sweep_report import PAGE, REPORT
from headway.scaling.sweep_run import run_sweep
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

BUDGETS, SIZES, HELD_OUT = "5e10,1.6e11,5e11,1.6e12,5e12", "0.35x,0.6x,1x,1.7x,2.8x", 4.0
SMALL = {"data.train.stdlib.lines": 60, "data.held_out": 0.1, "data.length": 32}
SMALL |= {"train.batch_tokens": 256}
SMALL_BUDGETS, SMALL_SIZES = "1e9,2e9,4e9", "8k,16k,30k"


def main() -> None:
    """Make the sweep, or go on with it; copy what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--html", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    began = time.perf_counter()
    recipe = load_recipe("lm/bytes", SMALL if arguments.small else None)
    assert isinstance(recipe, LanguageRecipe)
    budgets = budgets_of(SMALL_BUDGETS if arguments.small else BUDGETS)
    sizes = sizes_of(SMALL_SIZES if arguments.small else SIZES)
    sweep = begin_sweep(arguments.out, recipe, budgets, sizes, HELD_OUT)
    run_sweep(sweep, processes=arguments.jobs, devices=["cpu"])
    result = {
        "command": ["python", *sys.argv],
        "machine": environment(),
        "wall_seconds": round(time.perf_counter() - began, 1),
        "jobs": arguments.jobs,
        **read_json(arguments.out / REPORT),
    }
    write_atomic(arguments.json, to_json(result))
    if arguments.html:
        shutil.copyfile(arguments.out / PAGE, arguments.html)


if __name__ == "__main__":
    main()
