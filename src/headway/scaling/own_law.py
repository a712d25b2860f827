"""A law of the loss by its name, or from a file that a fit wrote."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import UserError
from headway.base.files import read_json
from headway.scaling.laws import ParametricLaw, Range
from headway.scaling.published import LAWS, find_law

_LETTERS = ("E", "A", "B", "alpha", "beta")
_INSIDE = 1.96  # deviations that 95 % of runs lie within


@dataclass(frozen=True, kw_only=True)
class OwnLaw(ParametricLaw):
    """A law fitted to one's own runs; `scatter` is the deviation of ln(loss) from it."""

    scatter: float = 0.0

    def spread(self, loss: float) -> tuple[float, float]:
        """Between what 95 % of runs with an expected loss come out."""
        return loss * math.exp(-_INSIDE * self.scatter), loss * math.exp(_INSIDE * self.scatter)


def load_law(name: str) -> ParametricLaw:
    """A published law of size and tokens, or that of a JSON file with E, A, B, alpha, beta.

    Raises UserError for one that has no such constants.
    """
    if name.endswith(".json"):
        return _read(Path(name))
    law = find_law(name)
    if not isinstance(law, ParametricLaw):
        able = [each for each, law in LAWS.items() if isinstance(law, ParametricLaw)]
        raise UserError(
            f"the law '{name}' is none of size and tokens together",
            where="--law",
            todo=f"such are: {', '.join(able)}",
        )
    return law


def _read(path: Path) -> OwnLaw:
    table = read_json(path)
    table = table if isinstance(table, dict) else {}
    wrong = [letter for letter in _LETTERS if not _is_positive(table.get(letter))]
    if wrong:
        raise UserError(
            f"it has no number above 0 for {', '.join(wrong)}",
            where=str(path),
            todo="give what headway scaling fit --json wrote",
        )
    E, A, B, alpha, beta = (float(table[letter]) for letter in _LETTERS)
    measured, residuals = table.get("measured"), table.get("residuals")
    rms = residuals.get("rms_percent") if isinstance(residuals, dict) else None
    return OwnLaw(
        name=path.stem,
        source=f"fitted, {path.name}",
        measured=_range(measured if isinstance(measured, dict) else {}),
        E=E,
        A=A,
        B=B,
        alpha=alpha,
        beta=beta,
        scatter=float(rms) / 100 if isinstance(rms, int | float) and _is_positive(rms) else 0.0,
    )


def _range(table: dict[str, Any]) -> Range:
    """Where the runs of a fit were; what is not two numbers is as if nothing were known."""
    spans = {
        name: (float(span[0]), float(span[1]))
        for name, span in table.items()
        if name in ("params", "tokens", "flop")
        if isinstance(span, list) and len(span) == 2 and all(map(_is_positive, span))
    }
    return Range(**spans)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
