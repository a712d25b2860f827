"""Where the rows of a part come from, as its settings say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal, TypeAlias

from headway.base.errors import UserError
from headway.data.cldr import cldr_pairs
from headway.data.delimited import Columns, literal_records, quoted_records
from headway.data.lines import stream_lines, unequal
from headway.data.objects import hub_rows, json_rows, parquet_rows
from headway.data.rows import Bad, Row, Source, expand, undecodable
from headway.settings.data import (
    BuiltinPairs,
    DataSettings,
    Format,
    HubPairs,
    PairFiles,
    TableFile,
)

PartName: TypeAlias = Literal["train", "valid", "test"]
SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
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
                    yield Row(number, one, other)
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

    def _format(self, path: str) -> Format:
        """What the settings say, or what the suffix tells. Raises UserError if neither does."""
        suffix = Path(path.removesuffix(".gz")).suffix.lower()
        found = self.part.format or SUFFIXES.get(suffix)
        if found is None:
            raise UserError(
                f"the suffix '{suffix}' of '{path}' does not tell the format",
                where=f"{self.key}.format",
                todo="set it to 'tsv', 'csv', 'jsonl' or 'parquet'",
            )
        return found

    def rows(self) -> Iterator[Row | Bad]:
        """The rows as the format has them."""
        return islice(self._all(), self.part.lines)

    def _all(self) -> Iterator[Row | Bad]:
        part = self.part
        path = expand(part.file, f"{self.key}.file")
        kind = self._format(path)
        if kind in ("jsonl", "parquet") and (part.separator or part.quoting):
            raise UserError(
                f"separator and quoting are for tsv and csv, and this is {kind}", where=self.key
            )
        if kind == "parquet":
            return parquet_rows(Path(path), part.source, part.target, key=self.key)
        lines = stream_lines(path, errors=part.errors)
        if kind == "jsonl":
            return json_rows(lines, part.source, part.target)
        separator = part.separator or {"tsv": "\t", "csv": ","}[kind]
        quoting = part.quoting or {"tsv": "none", "csv": "csv"}[kind]
        records = quoted_records if quoting == "csv" else literal_records
        columns = Columns(part.source, part.target, where=path, key=self.key)
        return columns.pick(records(lines, separator))


@dataclass(frozen=True)
class Hub:
    """A data set of the hub."""

    part: HubPairs
    key: str
    name: PartName

    @property
    def origin(self) -> str:
        """Name, configuration and split."""
        return " ".join(filter(None, (self.part.hub, self.part.config, self._split)))

    @property
    def sides(self) -> tuple[str, str]:
        """The columns."""
        return _columns(self.origin, self.part.source, self.part.target)

    @property
    def _split(self) -> str:
        return self.part.split or ("validation" if self.name == "valid" else self.name)

    def rows(self) -> Iterator[Row | Bad]:
        """The rows as the library gives them."""
        name = expand(self.part.hub, f"{self.key}.hub")
        return islice(hub_rows(self.part, name, self._split, key=self.key), self.part.lines)


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
            yield Row(number, source, target)

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
