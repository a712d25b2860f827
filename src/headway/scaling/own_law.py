"""A law of the loss by its name, or from a file that a fit wrote."""

from __future__ import annotations

from pathlib import Path

from headway.base.errors import UserError
from headway.base.files import explain_os_errors, read_json
from headway.scaling.laws import ParametricLaw
from headway.scaling.published import LAWS, find_law

_LETTERS = ("E", "A", "B", "alpha", "beta")


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


def _read(path: Path) -> ParametricLaw:
    with explain_os_errors(path):
        table = read_json(path)
    wrong = [
        letter
        for letter in _LETTERS
        if not isinstance(table, dict)
        or not isinstance(table.get(letter), int | float)
        or table[letter] <= 0
    ]
    if wrong:
        raise UserError(
            f"it has no number above 0 for {', '.join(wrong)}",
            where=str(path),
            todo="give what headway scaling fit --json wrote",
        )
    E, A, B, alpha, beta = (float(table[letter]) for letter in _LETTERS)
    return ParametricLaw(
        name=path.stem,
        source=f"fitted: {path.name}",
        E=E,
        A=A,
        B=B,
        alpha=alpha,
        beta=beta,
    )
