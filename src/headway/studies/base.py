"""What a study is: a claim, what is measured for it, and a verdict that the numbers give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.lens.figures import Panel, Value

Plain = dict[str, Any]
"""Values that JSON can hold."""


@dataclass(frozen=True)
class Found:
    """The outcomes of all measurements: for each setting, one a seed, in the order of the seeds."""

    outcomes: Mapping[str, Sequence[Plain]]

    def __getitem__(self, setting: str) -> Sequence[Plain]:
        return self.outcomes[setting]

    def values(self, setting: str, look: str | Callable[[Plain], Any]) -> list[float]:
        """One number a seed, by its key or by a function; those that are None are left out."""
        pick = look if callable(look) else lambda outcome: outcome[look]
        made = [pick(outcome) for outcome in self.outcomes[setting]]
        return [float(value) for value in made if value is not None]

    def value(self, setting: str, look: str | Callable[[Plain], Any]) -> Value | None:
        """Mean and range over the seeds; None if no seed has one."""
        return over_seeds(self.values(setting, look))

    def curve(self, setting: str, key: str) -> list[tuple[float, Value]]:
        """Points (x, mean and range over the seeds) of outcomes that hold [[x, y], …] as `key`."""
        at: dict[float, list[float]] = {}
        for outcome in self.outcomes[setting]:
            for x, y in outcome[key]:
                if y is not None:
                    at.setdefault(float(x), []).append(float(y))
        return [(x, value) for x, ys in sorted(at.items()) if (value := over_seeds(ys))]


def over_seeds(values: Sequence[float]) -> Value | None:
    """Mean, least and greatest; None of nothing."""
    if not values:
        return None
    return Value(statistics.fmean(values), min(values), max(values))


def mean(values: Sequence[float]) -> float:
    """Their mean; not a number of nothing."""
    return statistics.fmean(values) if values else math.nan


def all_above(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Whether every seed of the one is above every seed of the other: no overlap at all."""
    return bool(ones) and bool(others) and min(ones) > max(others)


@dataclass(frozen=True)
class Check:
    """One thing that the lecture says, with the numbers that decide it.

    `rule` is what must hold of the numbers, `numbers` what they are, `otherwise` what may be the
    reason where it does not hold.
    """

    what: str
    rule: str
    numbers: str
    holds: bool
    otherwise: str = ""

    def sentence(self) -> str:
        """The check in words; "as the lecture says" only where the numbers say so."""
        if self.holds:
            return f"As the lecture says, {self.what}: {self.numbers} ({self.rule})."
        reason = f" {self.otherwise}" if self.otherwise else ""
        return (
            f"The lecture says that {self.what}; these numbers do not show it: {self.numbers} "
            f"(wanted: {self.rule}).{reason}"
        )


@dataclass(frozen=True)
class Number:
    """The one number that stands for a study."""

    what: str
    value: Value | None
    unit: str = ""

    def text(self) -> str:
        """As it is printed, with its range over the seeds."""
        return f"{self.what}: {shown(self.value, self.unit)}"


def shown(value: Value | None, unit: str = "") -> str:
    """A mean and, where the seeds differ, their range."""
    if value is None:
        return "no finite value"
    unit = f" {unit}" if unit else ""
    text = f"{_digits(value.mean)}{unit}"
    if value.high > value.low:
        text += f" ({_digits(value.low)} to {_digits(value.high)})"
    return text


def _digits(number: float) -> str:
    size = abs(number)
    if size >= 1000:
        return f"{number:,.0f}"
    if size >= 10:
        return f"{number:.1f}"
    return f"{number:.3g}" if size >= 0.001 or size == 0 else f"{number:.1e}"


@dataclass(frozen=True)
class Conclusion:
    """What follows from the measurements.

    `rows` is a table: for each setting its columns. `text` tells the numbers in words; the checks
    are added to it. `panels` and `title` are the picture.
    """

    number: Number
    rows: Mapping[str, Mapping[str, Value | None]]
    checks: Sequence[Check]
    text: str
    title: str
    panels: Sequence[Panel]

    @property
    def holds(self) -> bool:
        """Whether all that the lecture says is what was found."""
        return all(check.holds for check in self.checks)

    def paragraph(self) -> str:
        """The finding in words."""
        return " ".join([self.text, *(check.sentence() for check in self.checks)]).strip()

    def to_table(self) -> Plain:
        """As JSON can hold it; the panels are what the picture shows, as numbers."""
        return {
            "holds": self.holds,
            "number": asdict(self.number),
            "rows": {
                name: {c: _plain(v) for c, v in row.items()} for name, row in self.rows.items()
            },
            "checks": [asdict(check) for check in self.checks],
            "paragraph": self.paragraph(),
        }


def _plain(value: Value | None) -> Plain | None:
    return None if value is None else asdict(value)


@dataclass(frozen=True)
class Study:
    """An experiment that measures one claim of the course.

    `settings(quick)` names what is compared, each with all that its outcome depends on beside the
    seed; `measure` makes one outcome of one of them; `conclude` judges them all.
    """

    name: str
    claim: str
    settings: Callable[[bool], Mapping[str, Plain]]
    measure: Callable[[Plain, int], Plain]
    conclude: Callable[[Found], Conclusion]
