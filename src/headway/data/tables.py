"""Rows of one file or one hub data set, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from headway.base.errors import UserError
from headway.data.delimited import Columns, literal_records, quoted_records
from headway.data.lines import stream_lines
from headway.data.objects import hub_rows, json_rows, parquet_rows
from headway.data.rows import Bad, Row, Wanted, expand
from headway.settings.data import Format, HubReader, TableReader

PartName: TypeAlias = Literal["train", "valid", "test"]
SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def table_rows(part: TableReader, wanted: Wanted) -> Iterator[Row | Bad]:
    """The rows of a file, the first `lines` of them.

    Raises UserError where the file cannot be read, or does not have the columns.
    """
    return islice(_rows(part, wanted), part.lines)


def _rows(part: TableReader, wanted: Wanted) -> Iterator[Row | Bad]:
    path = expand(part.file, f"{wanted.key}.file")
    kind = part.format or _format(path, wanted.key)
    if kind in ("jsonl", "parquet") and (part.separator or part.quoting):
        what = f"separator and quoting are for tsv and csv, and this is {kind}"
        raise UserError(what, where=wanted.key)
    if kind == "parquet":
        return parquet_rows(Path(path), wanted)
    lines = stream_lines(path, errors=part.errors)
    if kind == "jsonl":
        return json_rows(lines, wanted)
    separator = part.separator or {"tsv": "\t", "csv": ","}[kind]
    quoting = part.quoting or {"tsv": "none", "csv": "csv"}[kind]
    records = quoted_records if quoting == "csv" else literal_records
    return Columns(wanted, where=path).pick(records(lines, separator))


def _format(path: str, key: str) -> Format:
    """What the suffix tells. Raises UserError if it tells nothing."""
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(
            f"the suffix '{suffix}' of '{path}' does not tell the format",
            where=f"{key}.format",
            todo="set it to 'tsv', 'csv', 'jsonl' or 'parquet'",
        )
    return SUFFIXES[suffix]


def dataset_rows(part: HubReader, wanted: Wanted, name: PartName) -> Iterator[Row | Bad]:
    """The rows of a hub data set, the first `lines` of them, in the split that part `name` has.

    Raises UserError where it cannot be loaded, or does not have the columns.
    """
    folder = expand(part.hub, f"{wanted.key}.hub")
    rows = hub_rows(folder, part.config, split_of(part, name), wanted, streaming=part.streaming)
    return islice(rows, part.lines)


def hub_origin(part: HubReader, name: PartName) -> str:
    """What messages call a part of a hub data set."""
    return " ".join(filter(None, (part.hub, part.config, split_of(part, name))))


def split_of(part: HubReader, name: PartName) -> str:
    """The split of a hub data set that a part is."""
    return part.split or ("validation" if name == "valid" else name)
