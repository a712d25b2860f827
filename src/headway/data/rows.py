"""What readers give: pairs with the number of their line, and rows that cannot be used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from headway.base.errors import UserError

EMPTY = "an empty side"
FIELDS = "a wrong number of fields"
QUOTES = "broken quotes"
NOT_JSON = "invalid JSON"
NO_KEY = "a missing key"
NO_TEXT = "a value that is no text"
NOT_UTF8 = "bytes that are not UTF-8"
_VARIABLE = re.compile(r"\$\{(\w*)\}")


class Row(NamedTuple):
    """A pair and the number of its line (Parquet, hub: of its row), counted from 1."""

    number: int
    source: str
    target: str


class Bad(NamedTuple):
    """A row that is no pair, of which kind that is, and what stands there."""

    number: int
    kind: str
    text: str


class Source(Protocol):
    """Where the rows of a part come from; each call of `rows` begins anew.

    `origin` names it as the recipe does, `sides` its two sides.
    """

    @property
    def origin(self) -> str:
        """What messages call it."""

    @property
    def sides(self) -> tuple[str, str]:
        """What messages call the sources and the targets."""

    def rows(self) -> Iterator[Row | Bad]:
        """All rows in order. Raises UserError where it cannot go on."""


def undecodable(number: int, line: bytes) -> Bad:
    """A line that is not UTF-8."""
    return Bad(number, NOT_UTF8, line.decode("utf-8", "backslashreplace"))


def expand(path: str, key: str) -> str:
    """A path with the values of its `${VARIABLES}`.

    Raises UserError naming the variable that is not set and the recipe's `key`.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if not found:
            raise UserError(
                f"the environment variable '{match[1]}' in '{path}' is not set",
                where=key,
                todo=f"export {match[1] or 'NAME'}=... before the command",
            )
        return found

    return _VARIABLE.sub(value, path)


def pick(number: int, value: Any, source: str | int, target: str | int) -> Row | Bad:
    """The pair in a row of keys and values, or of values in a list."""
    try:
        sides = dig(value, source), dig(value, target)
    except (KeyError, IndexError, TypeError):
        return Bad(number, NO_KEY, str(value))
    one, other = sides
    if isinstance(one, str) and isinstance(other, str) and _is_unicode(one + other):
        return Row(number, one, other)
    return Bad(number, NO_TEXT, str(value))


def dig(value: Any, column: str | int) -> Any:
    """A value by its key, by its key within another ("translation.fr"), or by its number."""
    if isinstance(column, int):
        if not isinstance(value, list):
            raise TypeError("only lists have numbered values")
        return value[column]
    if column in value:
        return value[column]
    for key in column.split("."):
        value = value[key]
    return value


def _is_unicode(text: str) -> bool:
    # JSON can spell half of a surrogate pair
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
