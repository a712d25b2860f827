"""Whether plans come true: two trainings teach the speed, two others are planned, then made.

    python benchmarks/calibration.py --out runs/calibration \\
        --json benchmarks/results/calibration.json

All on Python's sources, in the shapes that plans have. The rows are those of the runs' reports:
planned, what happened, and the ratio, of tokens a second and of the bytes of tensors. The losses
say nothing, for the runs are cut short. `--small` makes them of few steps.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import headway
from headway.base.files import read_json, to_json, write_atomic
from headway.base.records import Records
from headway.base.runtime import environment
from headway.runs.planned import plan_rows
from headway.scaling.calibrate import calibrate, calibration_lines, keep, read_timed
from headway.scaling.hardware import load_hardware
from headway.scaling.plan import make_plan
from headway.scaling.plan_recipe import plan_recipe
from headway.scaling.question import Question
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

LEARNT, PLANNED, TOKENS = (5e5, 5e6), (1.2e6, 1e7), 2e7
DATA = {"train": {"stdlib": {"corpus": "builtin:stdlib", "lines": 300}}}
STEPS, FEW = 24, 6


def recipe_of(params: float, machine: str, hardware: Path | None, steps: int) -> dict[str, Any]:
    """What a plan for a size writes, cut short, on the interpreter's sources."""
    question = Question(params=params, tokens=TOKENS, machine=machine, length=256, vocabulary=2048)
    table = plan_recipe(make_plan(question, load_hardware(hardware)).choices[0], machine)
    table["data"] = {**table["data"], **DATA}
    table["train"] |= {"steps": steps, "dtype": "float32", "warmup": 0}
    table["train"] |= {"evaluate_every": steps, "save_every": steps, "log_every": 2}
    return {**table, "evaluate": {"rows": 8, "samples": 0}}


def trained(out: Path, recipe: dict[str, Any]) -> Path:
    """The run of a recipe, made if it is not there."""
    if not (out / "report.html").exists():
        headway.train(recipe, out=out, resume=(out / "config.json").exists(), device="cpu")
    return out


def rows_of(run: Path) -> list[dict[str, Any]]:
    """The plan of a run and what happened."""
    recipe = load_recipe(run / "recipe.toml")
    assert isinstance(recipe, LanguageRecipe)
    config = read_json(run / "config.json")
    rows = plan_rows(recipe.plan, Records(run / "metrics.jsonl").read())
    wanted = ("tokens a second", "bytes of tensors")
    return [
        {"parameters": config["parameters"], "what": what, "planned": planned}
        | {"happened": happened, "ratio": float(ratio)}
        for what, planned, happened, ratio in rows
        if what in wanted
    ]


def main() -> None:
    """Calibrate, plan, train, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    out, steps = arguments.out, FEW if arguments.small else STEPS
    out.mkdir(parents=True, exist_ok=True)
    first = [
        trained(out / f"learnt-{params:.0e}", recipe_of(params, "laptop-cpu", None, steps))
        for params in LEARNT
    ]
    found = calibrate([read_timed(run) for run in first])
    place, name = keep(found, None, out / "hardware.toml")
    print("\n".join(calibration_lines(found)))
    rows = [
        row
        for params in PLANNED
        for row in rows_of(
            trained(out / f"planned-{params:.0e}", recipe_of(params, name, place, steps))
        )
    ]
    for row in rows:
        print(row)
    result = {
        "command": ["python", *sys.argv],
        "machine": environment(),
        "flop_per_s": found.rate,
        "moved_bytes_per_s": found.moves,
        "learnt": [{"run": run.name, "tokens_per_s": run.tokens_per_s} for run in found.runs],
        "planned": rows,
    }
    write_atomic(arguments.json, to_json(result))


if __name__ == "__main__":
    main()
