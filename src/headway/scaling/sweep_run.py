"""Making the runs of a sweep: all of them here, or one of them, for many machines."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from headway.base.errors import UserError
from headway.base.optional import optional
from headway.base.progress import say
from headway.base.showing import Table
from headway.scaling.sweep import HELD_OUT, Sweep, read_forecast, train_runs, write_forecast
from headway.scaling.sweep_ends import RUN_HEAD, end_of, forecast, run_line, told
from headway.scaling.sweep_report import write_sweep_report
from headway.scaling.units import short


def run_sweep(sweep: Sweep, *, processes: int, devices: Sequence[str]) -> None:
    """Train what is left of the grid, so many at a time; then the held-out run, forecast before.

    Each run is told as it ends, and the report written. Raises UserError if runs failed, if another
    process is at it, and before all work if there is nothing to fit a law with.
    """
    from headway.checkpoint.run import RunFolder

    optional("scipy.optimize", extra="scaling", where="scaling sweep")
    with RunFolder(sweep.folder).lock():
        _run_sweep(sweep, processes, devices)


def _run_sweep(sweep: Sweep, processes: int, devices: Sequence[str]) -> None:
    print(RUN_HEAD, flush=True)
    for run in sweep.finished():
        print(run_line(end_of(sweep, run)), flush=True)

    def tell(run: dict[str, Any]) -> None:
        print(run_line(end_of(sweep, run)), flush=True)

    train_runs(sweep, sweep.runs, processes=processes, devices=devices, tell=tell)
    if sweep.held_out is not None:
        made = read_forecast(sweep)
        if made is None:  # else it is kept: it was made before the run
            larger, found = forecast(sweep)
            made = write_forecast(sweep, found, larger)
        say(told(made))
        train_runs(sweep, [made], processes=1, devices=devices, tell=tell)
    print("\n".join(write_sweep_report(sweep)))


def run_one(sweep: Sweep, number: int, *, device: str) -> None:
    """Train the run of that number, counted from 1, or go on with it."""
    if number > len(sweep.runs):
        raise UserError(
            f"there are {len(sweep.runs)} runs",
            where=f"--job {number}",
            todo="after them: headway scaling sweep --out DIR makes the forecast and what it is of",
        )
    run = sweep.runs[number - 1]
    train_runs(sweep, [run], processes=1, devices=[device], tell=lambda run: None)
    print(f"{RUN_HEAD}\n{run_line(end_of(sweep, run))}")


def list_runs(sweep: Sweep) -> str:
    """All runs by their numbers, where they stand, and how Slurm makes them."""
    rows: list[tuple[Any, ...]] = [
        (
            str(number),
            run["name"],
            sweep.state(run["name"]),
            f"{run['n_layers']} × {run['d_model']}",
            short(run["params"]),
            short(run["tokens"]),
            f"{run['flops']:.3g}",
        )
        for number, run in enumerate(sweep.runs, start=1)
    ]
    if sweep.held_out is not None:
        state = "after them" if read_forecast(sweep) is None else sweep.state(HELD_OUT)
        rows.append(("", HELD_OUT, state, "", "", "", ""))
    head = ("job", "run", "is", "layers × width", "parameters", "tokens", "FLOPs")
    place = shlex.quote(str(sweep.folder))
    again = f"headway scaling sweep --out {place}"
    each = shlex.quote(f"{again} --job $SLURM_ARRAY_TASK_ID")
    todo = f"sbatch --array=1-{len(sweep.runs)} --wrap {each}"
    return f"{Table(head, rows)}\n\nby Slurm: {todo}\nthen: {again}"
