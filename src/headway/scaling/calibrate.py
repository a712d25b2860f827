"""How fast a machine trains, learnt from finished runs and kept in its table.

A token takes as long as its matrix products and as moving what they leave for the backward pass:

    seconds = FLOPs / R + bytes / W

R and W are those of least squared relative errors over the runs, neither below 0. Of one run, or of
runs too like to tell them apart, there is R alone.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headway.base.errors import UserError
from headway.base.files import read_json
from headway.base.records import Records
from headway.base.runtime import memory
from headway.scaling.costs import flops_a_token, moved_a_flop, repeats
from headway.scaling.hardware import keep_machine, load_hardware
from headway.scaling.shapes import Shape
from headway.settings.base import parse
from headway.settings.counting import count_parameters
from headway.settings.kinds import LanguageRecipe
from headway.settings.model import DecoderSettings
from headway.settings.recipe import load_recipe

HERE = "here"
_LIKE = 1.05  # runs whose bytes a FLOP differ by less do not tell products from moving
_DIGITS = 4


@dataclass(frozen=True)
class Timed:
    """A finished run: its tokens a second on one of its devices, the work and bytes of a token."""

    name: str
    machine: str
    on_card: bool
    dtype: Literal["bfloat16", "float32"]
    tokens_per_s: float
    flops: float
    moved: float

    def seconds(self, rate: float, moves: float | None) -> float:
        """Of a token, at FLOP/s and bytes/s."""
        return self.flops / rate + (self.moved / moves if moves else 0.0)


@dataclass(frozen=True)
class Calibration:
    """R in FLOP/s, W in bytes/s (None where it could not be told), and what they are from."""

    runs: tuple[Timed, ...]
    rate: float
    moves: float | None

    @property
    def dtype(self) -> Literal["bfloat16", "float32"]:
        """What the runs were trained in."""
        return self.runs[0].dtype

    def modelled(self, run: Timed) -> float:
        """Tokens a second of a run, by R and W."""
        return 1 / run.seconds(self.rate, self.moves)


def find_runs(places: Sequence[Path]) -> list[Path]:
    """The runs among some folders, and in them. Raises UserError for one that has none."""
    found: list[Path] = []
    for place in places:
        inside = sorted(each.parent for each in place.glob("*/config.json"))
        runs = [place] if (place / "config.json").exists() else inside
        if not runs:
            raise UserError("there is no run here", where=str(place), todo="name finished runs")
        found += runs
    return list(dict.fromkeys(found))


def read_timed(folder: Path) -> Timed:
    """What a run says of the machine. Raises UserError for one that is no language model's."""
    recipe = load_recipe(folder / "recipe.toml")
    config, environment = read_json(folder / "config.json"), read_json(folder / "environment.json")
    if not isinstance(recipe, LanguageRecipe):
        raise UserError("not a causal language model, as plans are of", where=str(folder))
    settings = parse(DecoderSettings, config["model"], where=str(folder / "config.json"))
    length = recipe.data.length or settings.max_length
    settings = settings.model_copy(update={"max_length": length})
    shape = Shape(settings, config["n_tokens"], count_parameters(settings, config["n_tokens"]))
    trained = [each for each in Records(folder / "metrics.jsonl").read() if each["kind"] == "train"]
    if not trained:
        raise UserError("the run has no record of its speed yet", where=str(folder))
    steady = trained[1:] or trained  # the first steps also make the optimiser and warm up
    dtype: Literal["bfloat16", "float32"] = (
        "bfloat16" if recipe.train.dtype == "bfloat16" else "float32"
    )
    flops, (machine, on_card) = flops_a_token(shape), _machine(environment)
    return Timed(
        *(str(folder), machine, on_card, dtype),
        statistics.median(each["tokens_per_s"] for each in steady) / environment.get("ranks", 1),
        flops * repeats(shape, recomputes=recipe.train.checkpoint_activations),
        flops * moved_a_flop(shape, dtype, "accelerator" if on_card else "cpu"),
    )


def _machine(environment: dict[str, Any]) -> tuple[str, bool]:
    """What a rank trained on, and whether that is a card, not the processor with some threads."""
    cards, device = environment["accelerators"], environment.get("device", "cuda")
    if cards and device.startswith("cuda"):
        return str(cards[int(device.partition(":")[2] or 0)]), True
    return f"{environment['processor']}, {environment['threads']} threads", False


def calibrate(runs: Sequence[Timed]) -> Calibration:
    """R and W of runs on one machine, in one dtype. Raises UserError for runs of several."""
    for what in ("machine", "dtype"):
        kinds = {getattr(run, what): run.name for run in runs}
        if len(kinds) > 1:
            said = "; ".join(f"{name}: {kind}" for kind, name in kinds.items())
            todo = "calibrate on those of one"
            raise UserError(f"these runs are not of one {what}: {said}", todo=todo)
    # of relative errors: each run's own seconds are 1
    rows = [(run.flops * run.tokens_per_s, run.moved * run.tokens_per_s) for run in runs]
    (aa, ab, bb), (a, b) = _sums(rows)
    spread = [run.moved / run.flops for run in runs]
    if max(spread) > _LIKE * min(spread):
        determinant = aa * bb - ab * ab
        work, move = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
        if work > 0 and move > 0:
            return Calibration(tuple(runs), 1 / work, 1 / move)
    return Calibration(tuple(runs), aa / a, None)


def _sums(
    rows: list[tuple[float, float]],
) -> tuple[tuple[float, float, float], tuple[float, float]]:
    squares = sum(x * x for x, _ in rows), sum(x * y for x, y in rows), sum(y * y for _, y in rows)
    return squares, (sum(x for x, _ in rows), sum(y for _, y in rows))


def keep(found: Calibration, name: str | None, own: Path | None) -> tuple[Path, str]:
    """Write what was measured to a machine's entry, in `own` or the user's cache; which it is.

    A machine that is not in the table (without a name: `here`) gets what the runs say; of a card
    that is too little, and a UserError.
    """
    name = name or HERE
    known = load_hardware(own if own and own.exists() else None).machine.get(name)
    rate = {found.dtype: _short(found.rate / 1e12)}
    moves = {} if found.moves is None else {"moves": _short(found.moves / 1e9)}
    changes: dict[str, Any] = {
        "note": f"Speed: measured in {len(found.runs)} runs, {datetime.date.today()}.",
        "measured": rate | moves,
        "peak": rate | (known.peak.model_dump(exclude_none=True) if known else {}),
    }
    return keep_machine(name, changes if known else _described(found) | changes, own), name


def _described(found: Calibration) -> dict[str, Any]:
    """What can be said of a machine of which there is nothing but runs."""
    if found.runs[0].on_card:
        raise UserError(
            f"how much memory {found.runs[0].machine} has is not known",
            where="--machine",
            todo="name one of the table, or let headway bench machine add it first",
        )
    return {
        "name": found.runs[0].machine,
        "memory": round(memory() / 1e9, 1),
        "device": "cpu",
        "source": "its own trainings: the peak is no more than what they reached",
        "date": datetime.date.today(),
    }


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def calibration_lines(found: Calibration) -> list[str]:
    """The runs as measured and by R and W."""
    moves = f", moving {found.moves / 1e9:.3g} GB/s" if found.moves else ""
    lines = [f"{found.runs[0].machine}: {found.rate / 1e9:.4g} GFLOP/s, {found.dtype}{moves}"]
    for run in found.runs:
        modelled = found.modelled(run)
        lines.append(
            f"  {run.name}: {run.tokens_per_s:,.0f} tokens/s, by these {modelled:,.0f} "
            f"({100 * (modelled / run.tokens_per_s - 1):+.0f} %)"
        )
    return lines
