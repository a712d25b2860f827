"""Machines: what one can do at most, holds, draws and costs, from a table that can be edited."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, ValidationError, model_validator

from headway.base.errors import UserError, unknown
from headway.base.files import cached, write_atomic
from headway.settings.base import Settings, explain
from headway.settings.memory import Device
from headway.settings.toml import dump_toml

SHIPPED = resources.files("headway") / "scaling" / "hardware.toml"
DTYPES: tuple[Literal["bfloat16", "float32"], ...] = ("bfloat16", "float32")
Share = Annotated[float, Field(gt=0.0, le=1.0)]


class Price(Settings):
    """USD an hour of one machine; where and when it was read."""

    usd: PositiveFloat
    source: str
    date: datetime.date


class Utilisation(Settings):
    """The share of a peak that trainings reach: least, likely, greatest."""

    utilisation: Annotated[list[Share], Field(min_length=3, max_length=3)]
    source: str
    date: datetime.date

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if sorted(self.utilisation) != self.utilisation:
            raise ValueError("utilisation is written [least, likely, greatest]")
        return self


class Peak(Settings):
    """TFLOP/s of dense matrix products by dtype."""

    bfloat16: PositiveFloat | None = None
    float32: PositiveFloat | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.bfloat16 is None and self.float32 is None:
            raise ValueError("at least one of bfloat16 and float32 is needed")
        return self


class Measured(Peak):
    """TFLOP/s of whole trainings, in place of a share of the peak.

    With `moves` (GB/s) they are of the products alone: what a training keeps for its backward pass
    is moved at that rate beside them, which weighs more in small models.
    """

    moves: PositiveFloat | None = None


class Machine(Settings):
    """One accelerator or processor; see the head of hardware.toml for the units.

    `measured` was seen on this very machine. What is attended to in which way depends on `device`.
    """

    name: str
    peak: Peak
    memory: PositiveFloat
    device: Device = "accelerator"
    bandwidth: PositiveFloat | None = None
    power: PositiveFloat | None = None
    source: str
    date: datetime.date
    price: Price | None = None
    utilisation: Utilisation | None = None
    measured: Measured | None = None
    note: str = ""

    @property
    def dtype(self) -> Literal["bfloat16", "float32"]:
        """What Headway trains in here: the faster of those measured, else of those with a peak."""
        able = [dtype for dtype in DTYPES if getattr(self.peak, dtype)]
        rates = self.measured or self.peak
        return max(able, key=lambda dtype: getattr(rates, dtype) or 0.0)

    @property
    def bytes(self) -> float:
        """Memory in bytes."""
        return self.memory * 1e9


class Hardware(Settings):
    """The table: machines by name, and what trainings reach where nothing else is known."""

    training: Utilisation
    machine: dict[str, Machine]

    def find(self, name: str) -> Machine:
        """A machine by its name. Raises UserError naming those that are meant if there is none."""
        begin = [each for each in self.machine if name and each.startswith(name)]
        if name not in self.machine and begin:
            what = f"there is no machine '{name}'"
            raise UserError(what, where="--machine", todo=f"there is {' and '.join(begin)}")
        if name not in self.machine:
            raise unknown("machine", name, self.machine, where="--machine")
        return self.machine[name]

    def rate(
        self, machine: Machine, share: float | None = None, *, moved: float = 0.0
    ) -> tuple[float, float, float]:
        """FLOP/s of a training on one machine: least, likely, greatest.

        `share` of the peak replaces what the table says. `moved` are the bytes that a training
        keeps for its backward pass, for each of its FLOPs.
        """
        peak = 1e12 * (getattr(machine.peak, machine.dtype) or 0.0)
        if share is not None:
            return peak * share, peak * share, peak * share
        if machine.measured is not None:
            seen = 1e12 * (getattr(machine.measured, machine.dtype) or 0.0)
            if seen and machine.measured.moves:
                seen = 1 / (1 / seen + moved / (1e9 * machine.measured.moves))
            if seen:
                return seen, seen, seen
        low, likely, high = (machine.utilisation or self.training).utilisation
        return peak * low, peak * likely, peak * high


def load_hardware(own: Path | None = None) -> Hardware:
    """The shipped table; machines that were calibrated here, then those of the file `own`, are
    added to it or replace its own.

    Raises UserError with the key for what does not fit.
    """
    table = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    where = "hardware.toml"
    for file in filter(None, (calibrated() if calibrated().exists() else None, own)):
        where = str(file)
        added = read_toml(file)
        wrong = sorted(added.keys() - {"machine", "training"})
        if wrong:
            raise unknown("table", wrong[0], ["machine", "training"], where=where)
        if not isinstance(added.get("machine", {}), dict):
            raise UserError("a table is needed: [machine.NAME]", where=f"{where}, machine")
        table = {**table, **added, "machine": table["machine"] | added.get("machine", {})}
    try:
        return Hardware.model_validate(table)
    except ValidationError as error:
        raise explain(error, Hardware, where) from None


def refuse_name(name: str, where: str) -> None:
    """Raise UserError for a name under which a machine could be kept, but not found.

    A colon parts a name from a count, and the heads of the table's parts are not quoted.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise UserError(
            f"'{name}' cannot be the name of a machine",
            where=where,
            todo="use letters, digits, - and _ alone; a count, NAME:COUNT, is for plans",
        )


def keep_machine(name: str, changes: Mapping[str, Any], own: Path | None) -> Path:
    """Write figures of a machine to a table, `own` or the one in the user's cache; its place.

    A machine that is known keeps the rest of its figures. Other tables of the file stay; its
    comments do not. Raises UserError, before it writes, for a file that is no such table.
    """
    place = own or calibrated()
    there = place.exists()
    known = load_hardware(place if there else None).machine.get(name)
    before = known.model_dump(exclude_none=True, mode="python") if known else {}
    table = read_toml(place) if there else {}
    table.setdefault("machine", {})[name] = {**before, **changes}
    write_atomic(place, dump_toml(table))
    return place


def calibrated() -> Path:
    """Where what was measured of machines is kept, if no file is named."""
    return cached("hardware.toml")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. Raises UserError for one that cannot be read."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise UserError(f"not TOML: {error}", where=str(path), todo="correct that line") from None
