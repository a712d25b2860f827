"""What readers give: texts with the number of their line, and rows that cannot be used."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from headway.base.errors import UserError, is_broken

EMPTY = "an empty side"
FIELDS = "a wrong number of fields"
QUOTES = "broken quotes"
NOT_JSON = "invalid JSON"
NO_KEY = "a missing key"
NO_TEXT = "a value that is no text"
NOT_UTF8 = "bytes that are not UTF-8"
_VARIABLE = re.compile(r"\$\{(\w*)\}")


class Row(NamedTuple):
    """The texts of a row and the number of its line (Parquet, hub: of its row), counted from 1."""

    number: int
    texts: tuple[str, ...]

    @property
    def source(self) -> str:
        """The first text."""
        return self.texts[0]

    @property
    def target(self) -> str:
        """The second text."""
        return self.texts[1]


class Bad(NamedTuple):
    """A row that cannot be used, of which kind that is, and what stands there."""

    number: int
    kind: str
    text: str


class Wanted(NamedTuple):
    """Which columns of a table are read: what the recipe calls them below `key` -> the column.

    Those of the names `numbers` may hold numbers too, those of `lists` lists, which become text.
    Into `classes` the reader puts the classes of a name, in order, where the data have such.
    """

    columns: dict[str, str | int]
    key: str
    numbers: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    classes: dict[str, tuple[str, ...]] | None = None

    def empty(self, number: int) -> Row:
        """A row in which nothing stands."""
        return Row(number, ("",) * len(self.columns))


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


def pick(number: int, value: Any, wanted: Wanted) -> Row | Bad:
    """The texts in a row of keys and values, or of values in a list."""
    texts = []
    for name, column in wanted.columns.items():
        try:
            found = dig(value, column)
        except (KeyError, IndexError, TypeError):
            return Bad(number, f"{NO_KEY} {column!r}", str(value))
        if name in wanted.numbers and isinstance(found, int | float):
            found = str(int(found)) if isinstance(found, bool) else repr(found)
        if name in wanted.lists and isinstance(found, list):
            found = json.dumps(found, ensure_ascii=False)
        if not isinstance(found, str) or is_broken(found):
            return Bad(number, NO_TEXT, str(value))
        texts.append(found)
    return Row(number, tuple(texts))


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
