"""Learning rates at two widths, standard and by μP, and the coordinate check.

    python benchmarks/mup.py --out runs/mup --json benchmarks/results/mup.json \\
        --picture docs/how-to/mup.svg --check docs/how-to/coordinates.svg

lm/bytes two layers deep, at width 64 (the base of μP, where both are one) and at width 256, at
rates a factor of 2 apart, two seeds each; the loss is that of the validation part at the end. Runs
that are there are not made again. `--small` makes the same of a few seconds' runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.base.files import to_json, write_atomic
from headway.base.progress import say
from headway.base.runtime import environment
from headway.lens.figures import Curves, Value, draw_panels
from headway.scaling.coordinates import coordinate_check, coordinates_record, draw_coordinates
from headway.scaling.jobs import Job, work
from headway.scaling.points import read_runs
from headway.scaling.shapes import widened
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

BASE, WIDE, CHECKED = 64, 256, (64, 128, 256, 512)
RATES = tuple(2.0**power for power in range(-12, -5))
SETTINGS = {"train.steps": 400, "train.warmup": 40, "train.evaluate_every": 400}
SMALL = {"data.train.stdlib.lines": 60, "data.held_out": 0.1, "train.steps": 20}
Way = tuple[str, int]  # parametrisation and width
WAYS: tuple[Way, ...] = (("μP", BASE), ("μP", WIDE), ("standard", WIDE))


def recipe_of(way: Way, rate: float, seed: int, *, small: bool) -> LanguageRecipe:
    """One training."""
    name, width = way
    keys: dict[str, Any] = {**SETTINGS, **(SMALL if small else {}), "evaluate.samples": 0}
    found = load_recipe("lm/bytes", {**keys, "train.learning_rate": rate, "seed": seed})
    assert isinstance(found, LanguageRecipe)
    mup = found.train.mup if name == "μP" else None
    update = {"model": widened(found.model, width)}
    train = found.train.model_copy(update={"mup": mup})
    return found.model_copy(update={**update, "train": train})


def trained(out: Path, jobs: dict[tuple[Way, float, int], Job], processes: int) -> None:
    """Make the runs that are not there."""
    left = [job for job in jobs.values() if not job.finished]
    done = len(jobs) - len(left)

    def ended(job: Job, well: bool) -> None:
        nonlocal done
        done += 1
        say(f"{done} of {len(jobs)}: {job.run.name}" + ("" if well else f" ended early: {job.log}"))

    work(left, processes=processes, devices=["cpu"], ended=ended, waiting=lambda now: None)


def losses(
    jobs: dict[tuple[Way, float, int], Job], way: Way, rates: Sequence[float], seeds: int
) -> dict[float, list[float]]:
    """Rate -> the losses of its seeds; a rate at which a training diverged has none."""
    found = {}
    for rate in rates:
        ends = [jobs[way, rate, seed] for seed in range(1, seeds + 1)]
        if all(job.finished for job in ends):
            found[rate] = [float(read_runs([job.run])["loss"][0]) for job in ends]
    return found


def draw(found: dict[Way, dict[float, list[float]]], path: Path) -> None:
    """Loss by rate: the base beside each way to the wide model."""
    panels = []
    for name in ("standard", "μP"):
        series = {
            f"width {width}": [
                (rate, Value(sum(each) / len(each), min(each), max(each)))
                for rate, each in found[way].items()
            ]
            for way in (("μP", BASE), (name, WIDE))
            for width in (way[1],)
        }
        panels.append(Curves(name, "learning rate", "loss, nats a byte", series, log_x=True))
    draw_panels(panels, path, title="Which learning rate is the best")


def main() -> None:
    """Train, compare, check, draw, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--check", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    out, rates = arguments.out, RATES[::3] if arguments.small else RATES
    jobs = {}
    for way in WAYS:
        for rate in rates:
            for seed in range(1, arguments.seeds + 1):
                name = f"{'mup' if way[0] == 'μP' else way[0]}-{way[1]}-{rate:.2g}-{seed}"
                job = Job(out / f"{name}.toml", out / name, out / f"{name}.log")
                recipe = recipe_of(way, rate, seed, small=arguments.small)
                write_atomic(job.recipe, recipe.to_toml())
                jobs[way, rate, seed] = job
    trained(out, jobs, arguments.jobs)
    found = {way: losses(jobs, way, rates, arguments.seeds) for way in WAYS}
    means = {
        way: {rate: sum(each) / len(each) for rate, each in losses.items()}
        for way, losses in found.items()
    }
    best = {way: min(each, key=each.__getitem__) for way, each in means.items() if each}
    checked = coordinate_check(recipe_of(WAYS[0], 2.0**-8, 1, small=False), CHECKED)
    draw_coordinates(checked, arguments.check)
    draw(found, arguments.picture)
    result = {
        "command": ["python", *sys.argv],
        "machine": environment(),
        "best_rate": {f"{name}, width {width}": rate for (name, width), rate in best.items()},
        "losses": {f"{name}, width {width}": each for (name, width), each in found.items()},
        "coordinates": coordinates_record(checked),
    }
    write_atomic(arguments.json, to_json(result))
    print(to_json({"best_rate": result["best_rate"], "slopes": result["coordinates"]["slopes"]}))


if __name__ == "__main__":
    main()
