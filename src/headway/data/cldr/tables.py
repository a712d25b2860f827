"""What a table of expressions is, and the fixed draws that fill the tables.

A kind of expression (dates, money, ...) is a function from a locale to a table. Two tables of
the same kind in two locales are aligned by their keys.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import TypeAlias

# (form, value): the way of writing, and what is written. Of two forms of the same value that
# read alike in the source, the earlier one decides the target (see inventory.py).
Key: TypeAlias = tuple[str, Hashable]
Table: TypeAlias = dict[Key, str]


def fixed_draws(name: str) -> random.Random:
    """Give the generator that fills the table `name`: the same in every locale and every run."""
    return random.Random(f"headway:{name}")


def spread_integers(name: str, *, count: int, digits: int) -> list[int]:
    """Draw integers below 10**digits whose number of digits is spread evenly."""
    draws = fixed_draws(name)
    return [int(10 ** (draws.random() * digits)) for _ in range(count)]
