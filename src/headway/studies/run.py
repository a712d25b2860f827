"""Runs a study: measure what is not measured yet, judge, draw, write down."""

from __future__ import annotations

import hashlib
import json
import math
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway import __version__
from headway.base.errors import Interrupted, UserError
from headway.base.files import explain_os_errors, read_json, to_json, write_atomic
from headway.base.progress import say
from headway.base.runtime import environment, keep_pages
from headway.lens.figures import draw_panels
from headway.studies.base import Conclusion, Found, Plain, Study

SEEDS = 3
RESULT, PICTURE, KEPT = "result.json", "picture.svg", "measured"
_MACHINE = ("python", "packages", "platform", "processor", "cores", "threads", "git")


@dataclass(frozen=True)
class Report:
    """A study that has been run."""

    study: Study
    conclusion: Conclusion
    table: Plain
    result: Path
    picture: Path


def run_study(
    study: Study, *, quick: bool = False, seeds: int | None = None, out: Path | None = None
) -> Report:
    """Measure every setting with every seed, and write result.json and picture.svg to `out`.

    What an earlier call with the same settings measured is kept there and not measured again, so
    that a study survives being stopped. `seeds` is 3 if not set, and 1 if `quick`. Raises
    Interrupted when stopped.
    """
    n_seeds = seeds if seeds is not None else 1 if quick else SEEDS
    if n_seeds < 1:
        raise UserError(f"{n_seeds} seeds", where="seeds", todo="use 1 or more")
    folder = out or Path("runs/studies") / study.name
    with explain_os_errors(folder):
        (folder / KEPT).mkdir(parents=True, exist_ok=True)
    keep_pages()
    settings = study.settings(quick)
    records = _measure_all(study, settings, n_seeds, folder)
    found = Found(
        {
            name: [each["outcome"] for each in records if each["setting"] == name]
            for name in settings
        }
    )
    conclusion = study.conclude(found)
    picture, result = folder / PICTURE, folder / RESULT
    draw_panels(conclusion.panels, picture, title=conclusion.title, below=_below(quick, n_seeds))
    table = {
        "study": study.name,
        "claim": study.claim,
        **conclusion.to_table(),
        "command": _command(study.name, quick, n_seeds),
        "seconds": round(sum(each["seconds"] for each in records), 1),
        "settings": settings,
        "measured": [
            {name: each[name] for name in ("setting", "seed", "seconds", "outcome", "machine")}
            for each in records
        ],
    }
    table = _compact(_finite(table))
    write_atomic(result, to_json(table))
    return Report(study, conclusion, table, result, picture)


def _measure_all(
    study: Study, settings: Mapping[str, Plain], n_seeds: int, folder: Path
) -> list[Plain]:
    """One record a setting and seed: seed by seed, so that early ones compare all settings."""
    cases = [(seed, name) for seed in range(1, n_seeds + 1) for name in settings]
    records = []
    for number, (seed, name) in enumerate(cases, start=1):
        path = folder / KEPT / f"{_key(study, settings[name], seed)}.json"
        say(f"{number} of {len(cases)}: {name}, seed {seed}")
        if path.exists():
            record = read_json(path)
            say(f"    measured before: {_numbers(record)}")
        else:
            try:
                record = _measure(study, name, settings[name], seed)
            except (Interrupted, KeyboardInterrupt) as stopped:  # in a training, or outside
                raise Interrupted(
                    stopped.signal if isinstance(stopped, Interrupted) else signal.SIGINT,
                    f"stopped; {number - 1} of {len(cases)} measurements are kept in "
                    f"{folder / KEPT}: the same command goes on from there",
                ) from None
            write_atomic(path, to_json(record))
            say(f"    {_numbers(record)}")
        records.append(record)
    return records


def _measure(study: Study, name: str, settings: Plain, seed: int) -> Plain:
    began = time.perf_counter()
    outcome = study.measure(settings, seed)
    seconds = time.perf_counter() - began
    machine = environment()
    return {
        "setting": name,
        "seed": seed,
        "seconds": round(seconds, 1),
        "settings": settings,
        "outcome": _finite(outcome),
        "machine": {key: machine[key] for key in _MACHINE},
    }


def _key(study: Study, settings: Plain, seed: int) -> str:
    """A name for a measurement: other settings or another version have another."""
    facts = json.dumps([study.name, __version__, settings, seed], sort_keys=True)
    return f"{study.name}-{seed}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def _numbers(record: Plain) -> str:
    """The outcome's single numbers, for a line of progress."""
    shown = [
        f"{name} {value:.4g}"
        for name, value in record["outcome"].items()
        if isinstance(value, int | float)
    ]
    return "  ".join([*shown, f"{record['seconds']:.0f} s"])


def _finite(value: Any) -> Any:
    """The value with None for numbers that are none: JSON has no word for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def _compact(table: Plain) -> Plain:
    """The table with the machine told once, if all measurements are of one."""
    machines = [each["machine"] for each in table["measured"]]
    if all(machine == machines[0] for machine in machines):
        rest = [{k: v for k, v in each.items() if k != "machine"} for each in table["measured"]]
        return {**table, "machine": machines[0], "measured": rest}
    return table


def _command(name: str, quick: bool, n_seeds: int) -> str:
    return f"headway study {name}{' --quick' if quick else ''} --seeds {n_seeds}"


def _below(quick: bool, n_seeds: int) -> str:
    length = "Quick run on an easier task" if quick else "Full run"
    seeds = f"mean and range over {n_seeds} seeds" if n_seeds > 1 else "one seed"
    return f"{length}; {seeds}. Built-in French–English corpus."
