"""Where the rows of a part come from, as its settings say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from headway.base.errors import UserError
from headway.data.cldr import cldr_pairs
from headway.data.lines import stream_lines, unequal
from headway.data.rows import Bad, Row, Source, Wanted, expand, undecodable
from headway.data.tables import PartName, dataset_rows, split_of, table_rows
from headway.settings.data import (
    BuiltinPairs,
    DataSettings,
    HubPairs,
    PairFiles,
    TableFile,
)

CLDR_KEYS = {  # an argument of `cldr_pairs` -> the recipe key that it comes from
    "source": "data.source_language",
    "target": "data.target_language",
    "n": "data.{part}.lines",
    "max_words": "data.{part}.max_words",
    "kinds": "data.{part}.kinds",
}


def source_of(settings: DataSettings, name: PartName) -> Source | None:
    """Where the rows of a part come from; None if the recipe has no such part.

    Touches no file: a mistake is told when rows are asked for.
    """
    part = getattr(settings, name)
    key = f"data.{name}"
    if isinstance(part, PairFiles):
        return Files(part, key)
    if isinstance(part, TableFile):
        return Table(part, key)
    if isinstance(part, HubPairs):
        return Hub(part, key, name)
    if isinstance(part, BuiltinPairs):
        return Builtin(settings, part, name)
    return None


@dataclass(frozen=True)
class Files:
    """Two parallel files."""

    part: PairFiles
    key: str

    @property
    def origin(self) -> str:
        """Both paths."""
        return ", ".join(self.sides)

    @property
    def sides(self) -> tuple[str, str]:
        """The paths as the recipe has them."""
        return self.part.source, self.part.target

    def rows(self) -> Iterator[Row | Bad]:
        """Line i of the one with line i of the other; all lines are counted, whatever `lines`."""
        paths = [
            expand(path, f"{self.key}.{side}")
            for path, side in zip(self.sides, ("source", "target"), strict=True)
        ]
        sides = [stream_lines(path, errors=self.part.errors) for path in paths]
        suspect, wanted = 0, self.part.lines
        for number, (one, other) in enumerate(zip_longest(*sides), start=1):
            if one is None or other is None:
                more = sum(1 for side in sides for _ in side)
                counts = [number - 1 if end is None else number + more for end in (one, other)]
                raise unequal(paths, counts, suspect or number)
            if not suspect and bool(one) != bool(other):
                suspect = number  # often where they part
            if wanted is None or number <= wanted:
                if isinstance(one, str) and isinstance(other, str):
                    yield Row(number, (one, other))
                else:
                    yield undecodable(number, one if isinstance(one, bytes) else _bytes(other))


def _bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode("utf-8")


@dataclass(frozen=True)
class Table:
    """One file with a pair a row."""

    part: TableFile
    key: str

    @property
    def origin(self) -> str:
        """The path as the recipe has it."""
        return self.part.file

    @property
    def sides(self) -> tuple[str, str]:
        """The columns."""
        return _columns(self.origin, self.part.source, self.part.target)

    def rows(self) -> Iterator[Row | Bad]:
        """The rows as the format has them."""
        return table_rows(self.part, _both(self.part, self.key))


@dataclass(frozen=True)
class Hub:
    """A data set of the hub."""

    part: HubPairs
    key: str
    name: PartName

    @property
    def origin(self) -> str:
        """Name, configuration and split."""
        return " ".join(
            filter(None, (self.part.hub, self.part.config, split_of(self.part, self.name)))
        )

    @property
    def sides(self) -> tuple[str, str]:
        """The columns."""
        return _columns(self.origin, self.part.source, self.part.target)

    def rows(self) -> Iterator[Row | Bad]:
        """The rows as the library gives them."""
        return dataset_rows(self.part, _both(self.part, self.key), self.name)


@dataclass(frozen=True)
class Builtin:
    """The built-in corpus."""

    settings: DataSettings
    part: BuiltinPairs
    name: PartName

    @property
    def origin(self) -> str:
        """Its name and the part."""
        return f"{self.part.corpus} {self.name}"

    @property
    def sides(self) -> tuple[str, str]:
        """The languages."""
        return self.settings.source_language, self.settings.target_language

    def rows(self) -> Iterator[Row | Bad]:
        """The pairs, made once."""
        for number, (source, target) in enumerate(self._made, start=1):
            yield Row(number, (source, target))

    @cached_property
    def _made(self) -> list[tuple[str, str]]:
        try:
            return cldr_pairs(
                self.settings.source_language,
                self.settings.target_language,
                n=self.part.lines,
                split=self.name,
                seed=self.part.seed,
                max_words=self.part.max_words,
                kinds=self.part.kinds,
            )
        except UserError as error:
            key = CLDR_KEYS.get(error.where or "", "").format(part=self.name)
            raise UserError(error.what, where=key or error.where, todo=error.todo) from None


def _columns(origin: str, source: str | int, target: str | int) -> tuple[str, str]:
    return f"{origin}, column {source}", f"{origin}, column {target}"


def _both(part: TableFile | HubPairs, key: str) -> Wanted:
    return Wanted({"source": part.source, "target": part.target}, key)
