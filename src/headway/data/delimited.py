"""Rows of TSV and CSV, their columns by name or by number."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headway.base.errors import UserError, unknown, visible
from headway.data.rows import FIELDS, NOT_UTF8, QUOTES, Bad, Row, Wanted, undecodable

MOST_LINES = 100  # in one quoted field; a quote that stays open longer is a broken one
# The csv module ends a row at a CR that no quotes protect. U+FDD0 is no character of any text:
# Unicode keeps it for uses such as this one.
_CR = "\ufdd0"
# Of a cell, in characters. The csv module's own 131,072 would call a long cell broken quotes; that
# it is too long for a model is told later, as in every other format.
_LARGEST = 2**31 - 1


class Fields(NamedTuple):
    """The cells of a row, the number of its first line, and that line."""

    number: int
    cells: list[str]
    text: str


@dataclass(frozen=True)
class Columns:
    """Which cells of a row are wanted; names are looked up in the first row."""

    wanted: Wanted
    where: str  # the file, for messages

    @property
    def named(self) -> bool:
        """Whether the first row has the names of the columns."""
        return all(isinstance(column, str) for column in self.wanted.columns.values())

    def pick(self, records: Iterator[Fields | Bad]) -> Iterator[Row | Bad]:
        """The texts of each record; one of another width than the first is bad.

        A line with nothing on it has empty texts. Raises UserError if the first row does
        not have the columns.
        """
        places, width = tuple[int, ...](), -1
        for record in records:
            if isinstance(record, Bad):
                if width < 0 and self.named:
                    raise UserError(
                        f"the line with the names of the columns cannot be read: {record.kind}",
                        where=f"{self.where}:{record.number}",
                    )
                yield record
                continue
            number, cells, text = record
            if not text:
                yield self.wanted.empty(number)
                continue
            if width < 0:
                places, width = self._places(cells), len(cells)
                if self.named:
                    continue
            if len(cells) == width:
                yield Row(number, tuple(cells[place] for place in places))
            else:
                yield Bad(number, FIELDS, text)

    def _places(self, cells: list[str]) -> tuple[int, ...]:
        found = []
        for side, column in self.wanted.columns.items():
            if isinstance(column, str):
                if column not in cells:
                    where = f"{self.where}, {self.wanted.key}.{side}"
                    if len(cells) == 1:
                        only = visible(cells[0][:99])
                        what = f"there is no column '{column}', and only one: '{only}'"
                        todo = f"check the name, and {self.wanted.key}.separator"
                        raise UserError(what, where=where, todo=todo)
                    raise unknown("column", column, cells, where=where)
                found.append(cells.index(column))
            elif column >= len(cells):
                raise UserError(
                    f"there is no column {column}: the first row has {len(cells)}, from 0 on",
                    where=f"{self.where}, {self.wanted.key}.{side}",
                    todo="check the number, the separator and the format",
                )
            else:
                found.append(column)
        return tuple(found)


def literal_records(lines: Iterator[str | bytes], separator: str) -> Iterator[Fields | Bad]:
    """Each line is a row, and each separator parts two cells; quotes are text."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, bytes):
            yield undecodable(number, line)
        else:
            yield Fields(number, line.split(separator), line)


def quoted_records(lines: Iterator[str | bytes], separator: str) -> Iterator[Fields | Bad]:
    """Rows as RFC 4180 has them: a cell in double quotes may hold separators and line ends.

    Where quotes are broken, the line is bad and the next line begins a row: one mistake does not
    swallow what follows.
    """
    csv.field_size_limit(_LARGEST)
    taken = _Lines(lines)
    reader = csv.reader(taken, delimiter=separator, strict=True)
    while True:
        taken.begin()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            number, line = taken.first()
            yield Bad(number, QUOTES, _shown(line))
            taken.back()
            continue
        number, line = taken.first()
        if any(isinstance(part, bytes) for _, part in taken.taken):
            yield Bad(number, NOT_UTF8, _shown(line))
        else:
            yield Fields(number, [cell.replace(_CR, "\r") for cell in cells], _shown(line))


def _shown(line: str | bytes) -> str:
    return line if isinstance(line, str) else line.decode("utf-8", "backslashreplace")


class _Lines:
    """Lines for a csv reader; those of a broken row, but for its first, can come once more."""

    def __init__(self, lines: Iterator[str | bytes]) -> None:
        self.lines = enumerate(lines, start=1)
        self.again: deque[tuple[int, str | bytes]] = deque()
        self.taken: list[tuple[int, str | bytes]] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if len(self.taken) >= MOST_LINES:
            raise csv.Error("a quote stays open")
        numbered = self.again.popleft() if self.again else next(self.lines)
        self.taken.append(numbered)
        return _shown(numbered[1]).replace("\r", _CR) + "\n"

    def begin(self) -> None:
        """A row begins at the next line."""
        self.taken.clear()

    def first(self) -> tuple[int, str | bytes]:
        """The number and the text of the line that the row began with."""
        return self.taken[0]

    def back(self) -> None:
        """The lines after the first have not been read."""
        self.again.extendleft(reversed(self.taken[1:]))
