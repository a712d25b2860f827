"""Measured runs to fit a law to: from run folders, or from a table of anybody's."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from headway.base.errors import UserError, unknown
from headway.base.files import read_json
from headway.base.records import Records
from headway.scaling.laws import TRAINING

Floats = NDArray[np.float64]
_GREATEST = 1e40  # of what a run has; the constants of laws of more are beyond a float
QUANTITIES = {
    "params": "parameters",
    "tokens": "training tokens",
    "flop": "training FLOPs",
    "loss": "loss",
}
# What a column is called where nobody says, without regard to case; others are named by options.
_USUAL = {
    "params": ("params", "parameters", "n", "n_params", "size", "model size", "model_size"),
    "tokens": ("tokens", "training tokens", "training_tokens", "d", "n_tokens"),
    "flop": ("flop", "flops", "training flop", "training flops", "training_flop", "c", "compute"),
    "loss": ("loss", "final loss", "final_loss", "valid_loss", "nll"),
}


@dataclass(frozen=True)
class Points:
    """Runs by quantity (`params`, `tokens`, `flop`, `loss`), one number a run.

    Of parameters, tokens and FLOPs two give the third, C = 6·N·D; one alone will do for a power
    law. `unique` are the different tokens where text was repeated. FLOPs that were counted, with
    attention and the output, are more than 6·N·D: they say which runs are of one budget.
    """

    origin: str
    names: list[str]
    known: Mapping[str, Floats]
    unique: Floats | None = None
    notices: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, quantity: str) -> Floats:
        if quantity not in self.known:
            raise UserError(
                f"there is nothing to know the {QUANTITIES[quantity]} by",
                where=self.origin,
                todo="two of parameters, tokens and FLOPs are needed: name their columns",
            )
        return self.known[quantity]

    @property
    def flop_6nd(self) -> Floats:
        """FLOPs as laws take them, C = 6·N·D, whatever was counted."""
        return TRAINING * self["params"] * self["tokens"]

    def pick(self, kept: NDArray[np.intp]) -> Points:
        """Some of the runs, in the order of their numbers."""
        return replace(
            self,
            names=[self.names[place] for place in kept],
            known={name: values[kept] for name, values in self.known.items()},
            unique=None if self.unique is None else self.unique[kept],
        )

    def without_highest(self, n: int) -> Points:
        """Without the `n` runs of highest loss: mostly failed, or stopped too early."""
        if not 0 <= n < len(self):
            raise UserError(f"{n} of {len(self)} runs cannot be left out", where=self.origin)
        order = np.argsort(self["loss"], kind="stable")
        return self.pick(np.sort(order[: len(self) - n]))


def different(values: Floats) -> int:
    """How many numbers differ by more than about 1 %."""
    return len(np.unique(np.round(np.log(values), 2)))


def _completed(known: dict[str, Floats]) -> dict[str, Floats]:
    """The third of parameters, tokens and FLOPs where there are two."""
    has = known.keys()
    if "tokens" not in has and {"params", "flop"} <= has:
        known["tokens"] = known["flop"] / (TRAINING * known["params"])
    if "params" not in has and {"tokens", "flop"} <= has:
        known["params"] = known["flop"] / (TRAINING * known["tokens"])
    if "flop" not in has and {"params", "tokens"} <= has:
        known["flop"] = TRAINING * known["params"] * known["tokens"]
    return known


def read_csv(path: Path, columns: Mapping[str, str | None] | None = None) -> Points:
    """Runs of a table with a header, one a row, parted by commas, semicolons or tabs.

    `columns` names the column of each quantity; those without a name are looked for by what they
    are usually called. Raises UserError for a column that is not there, and for the first cell
    that is no number above 0, with its line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read_table(file, str(path), columns or {})
    except FileNotFoundError:
        raise UserError("there is no such file", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8: {error.reason}", where=str(path)) from None
    except csv.Error as error:
        raise UserError(f"not a table: {error}", where=str(path)) from None


def _read_table(file: TextIO, origin: str, columns: Mapping[str, str | None]) -> Points:
    first = file.readline()
    if not first.strip():
        raise UserError("there is no header in the first line", where=origin)
    separator = max(",;\t", key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator))]
    places = dict(_places(header, columns, origin))
    names, cells = [], []
    reader = csv.reader(file, delimiter=separator)
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        line = f"{origin}:{reader.line_num + 1}"
        names.append(line)
        cells.append([_number(row, place, header, line) for place in places.values()])
    if not names:
        raise UserError("there is a header but no row below it", where=origin)
    found = dict(zip(places, np.array(cells).T, strict=True))
    return Points(origin, names, _completed(found))


def _places(
    header: list[str], columns: Mapping[str, str | None], origin: str
) -> Iterator[tuple[str, int]]:
    """Each quantity with the place of its column."""
    plain = [name.lower() for name in header]
    for quantity, usual in _USUAL.items():
        wanted = columns.get(quantity)
        if wanted is not None:
            if wanted not in header:
                raise unknown("column", wanted, header, where=origin)
            yield quantity, header.index(wanted)
        elif found := [plain.index(name) for name in usual if name in plain]:
            yield quantity, found[0]
        elif quantity == "loss":
            todo = f"name it with --loss-column; there are: {', '.join(header)}"
            raise UserError("there is no column of losses", where=origin, todo=todo)


def _number(row: Sequence[str], place: int, header: list[str], where: str) -> float:
    """A cell as a number above 0."""
    if place >= len(row):
        raise UserError(f"there is no cell in column '{header[place]}'", where=where)
    try:
        value = float(row[place])
    except ValueError:
        value = float("nan")
    if not 1 / _GREATEST < value < _GREATEST:
        what = f"'{row[place].strip()}' in column '{header[place]}' is not a number above 0"
        raise UserError(f"{what} that a run can have", where=where)
    return value


def read_runs(folders: Sequence[Path]) -> Points:
    """The ends of Headway runs: all parameters, target tokens seen, last validation loss.

    Raises UserError for a folder that is no run, and for a run without such a loss.
    """
    ends = [_end(folder) for folder in folders]
    found = {name: np.array([end[name] for end in ends]) for name in ("params", "tokens", "loss")}
    unique = np.array([end["unique"] for end in ends])
    repeated = bool((unique < 0.99 * found["tokens"]).any())  # less is the rounding of packing
    return Points(
        origin=", ".join(map(str, folders)) if len(folders) < 4 else f"{len(folders)} runs",
        names=[str(folder) for folder in folders],
        known=_completed(found),
        unique=unique if repeated else None,
    )


def _end(folder: Path) -> dict[str, float]:
    config, records = _read_run(folder)
    trained = [record for record in records if record["kind"] == "train"]
    judged = [record for record in records if record["kind"] == "valid" and "nll" in record]
    if not trained or not judged:
        raise UserError(
            "the run has no validation loss yet",
            where=str(folder),
            todo="let it reach an evaluation, or give it a validation part",
        )
    last = judged[-1]
    seen = [record["tokens"] for record in trained if record["step"] <= last["step"]]
    tokens = float(seen[-1] if seen else trained[0]["tokens"])
    sources = read_json(folder / "data.json") if (folder / "data.json").exists() else {}
    counts = [source["tokens"] for source in sources.values() if "tokens" in source]
    return {
        "params": float(config["parameters"]),
        "tokens": tokens,
        "loss": float(last["nll"]),
        "unique": min(tokens, float(sum(counts))) if counts else tokens,
    }


def read_curves(folders: Sequence[Path], *, window: int = 5) -> Points:
    """The training losses of Headway runs all along, as the mean of `window` records."""
    names, rows = [], []
    for folder in folders:
        config, records = _read_run(folder)
        trained = [record for record in records if record["kind"] == "train"]
        for start in range(len(trained) - window + 1):
            part = trained[start : start + window]
            loss = float(np.mean([record["nll"] for record in part]))
            tokens = float(np.mean([record["tokens"] for record in part]))
            rows.append((float(config["parameters"]), tokens, loss))
            names.append(str(folder))
    if not rows:
        raise UserError("no run has enough records to draw its training loss")
    found = dict(zip(("params", "tokens", "loss"), np.array(rows).T, strict=True))
    return Points(f"{len(folders)} runs", names, _completed(found))


def _read_run(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The config and the records of a run, read without torch."""
    where = folder / "config.json"
    if not where.exists():
        todo = "name a table that ends in .csv or .tsv, or folders of runs"
        raise UserError("this is no run and no table", where=str(folder), todo=todo)
    config = read_json(where)
    if not isinstance(config, dict) or "parameters" not in config:
        raise UserError("the run does not say how many parameters it has", where=str(where))
    return config, Records(folder / "metrics.jsonl").read()
