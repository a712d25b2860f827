"""Rows of keys and values: JSONL, Parquet and data sets of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.errors import UserError, unknown
from headway.base.optional import optional
from headway.data.rows import NOT_JSON, Bad, Row, Wanted, pick, undecodable

_BATCH = 1000  # rows of a Parquet file that are in memory at a time


def json_rows(lines: Iterator[str | bytes], wanted: Wanted) -> Iterator[Row | Bad]:
    """A JSON object a line, or a list where the columns are numbers; an empty line is no text."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, bytes):
            yield undecodable(number, line)
            continue
        if not line.strip():
            yield wanted.empty(number)
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            yield Bad(number, NOT_JSON, line)
            continue
        yield pick(number, value, wanted)


def parquet_rows(path: Path, wanted: Wanted) -> Iterator[Row | Bad]:
    """The rows of a Parquet file, of which only the wanted columns are read."""
    parquet = optional("pyarrow.parquet", extra="hub", where=str(path))
    errors = optional("pyarrow", extra="hub", where=str(path)).lib.ArrowException
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns: dict[str, str | int] = {
                name: _column(names, column, f"{path}, {wanted.key}.{name}")
                for name, column in wanted.columns.items()
            }
            named = map(str, columns.values())
            read = sorted({column if column in names else _outer(column) for column in named})
            wanted = wanted._replace(columns=columns)
            number = 0
            for batch in file.iter_batches(_BATCH, columns=read):
                for value in batch.to_pylist():
                    number += 1
                    yield pick(number, value, wanted)
    except FileNotFoundError:
        raise UserError("there is no such file", where=str(path), todo="check the path") from None
    except (OSError, ValueError, errors) as error:  # a text that is not UTF-8 is a ValueError
        raise UserError(f"cannot be read: {error}", where=str(path)) from None
    if not number:
        raise UserError("the file has no rows", where=str(path))


def hub_rows(
    name: str, config: str | None, split: str, wanted: Wanted, *, streaming: bool
) -> Iterator[Row | Bad]:
    """The rows of a data set of the hub, or of a folder `name` in its layout.

    What the set calls a class is told by its name, not by its number.
    """
    key = wanted.key
    datasets = optional("datasets", extra="hub", where=key)
    try:
        found = datasets.load_dataset(name, config, split=split, streaming=streaming)
    except Exception as error:  # the library has no class of its own for what a user can mistake
        raise UserError(
            f"cannot load the data set: {error}", where=f"{key}.hub", todo="check name and split"
        ) from error
    names = list(found.column_names or ())
    if names:  # a stream may not know them
        columns: dict[str, str | int] = {
            each: _column(names, column, f"{key}.{each}") for each, column in wanted.columns.items()
        }
        wanted = wanted._replace(columns=columns)
    features = getattr(found, "features", None) or {}
    classes = {name: each.names for name, each in features.items() if hasattr(each, "names")}
    if wanted.classes is not None:
        for each, column in wanted.columns.items():
            if column in classes:
                wanted.classes[each] = tuple(classes[column])
    number = 0
    try:
        for number, value in enumerate(found, start=1):
            yield pick(number, _classes_named(value, classes), wanted)
    except Exception as error:  # of the network, or of a file of the set
        raise UserError(
            f"the data set breaks off after row {number}: {error}",
            where=f"{key}.hub",
            todo="try again; without streaming it is stored first",
        ) from error


def _classes_named(row: Any, classes: Mapping[str, Sequence[str]]) -> Any:
    """A row with names for the numbers of classes; -1 stands for a class that is not told."""
    told = {
        column: names[row[column]]
        for column, names in classes.items()
        if isinstance(row.get(column), int) and 0 <= row[column] < len(names)
    }
    return {**row, **told} if told else row


def _outer(column: str) -> str:
    return column.partition(".")[0]


def _column(names: list[str], column: str | int, where: str) -> str:
    """The name of a column that is there, or whose outer key is."""
    if isinstance(column, int):
        if column >= len(names):
            raise UserError(f"there is no column {column}: there are {len(names)}", where=where)
        return names[column]
    if column not in names and _outer(column) not in names:
        raise unknown("column", column, names, where=where)
    return column
