"""The same pairs in every kind of file, and what is read of a part."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headway.data.pair_stream import PairStream
from headway.data.pairs import collect, open_part
from headway.settings.data import DataSettings


class Found(NamedTuple):
    """What is read of a part: its pairs, what was told, and how often each thing was noticed."""

    pairs: list[tuple[str, str]]
    notices: tuple[str, ...]
    counts: dict[str, int]
    lines: dict[str, list[int]]


Read = Callable[..., Found]


def stream_of(data: dict[str, Any] | None = None, **train: Any) -> PairStream:
    """The training part with these settings."""
    table = {"source_language": "fr", "target_language": "en", "train": train, **(data or {})}
    stream = open_part(DataSettings.model_validate(table), "train")
    assert stream is not None
    return stream


@pytest.fixture
def read() -> Read:
    def run(data: dict[str, Any] | None = None, **train: Any) -> Found:
        stream = stream_of(data, **train)
        pairs = collect(stream)
        assert stream.reading is not None
        found = stream.reading.notes.found
        assert stream.reading.kept == len(pairs)
        dropped = sum(finding.count for finding in stream.reading.notes.dropped())
        assert stream.reading.read == len(pairs) + dropped
        return Found(
            list(zip(pairs.sources, pairs.targets, strict=True)),
            pairs.notices,
            {kind: finding.count for kind, finding in found.items()},
            {kind: [each.line for each in finding.examples] for kind, finding in found.items()},
        )

    return run


def written(folder: Path, kind: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Write pairs as files of that kind, with a head where there is one; returns the settings."""
    if kind.startswith("files"):
        gz = ".gz" if kind.endswith("gz") else ""
        for place, side in enumerate(("source", "target")):
            text = "".join(pair[place] + "\n" for pair in pairs)
            put(folder / f"{side}{gz}", text)
        return {side: str(folder / f"{side}{gz}") for side in ("source", "target")}
    path = folder / f"pairs.{kind}"
    base = kind.removesuffix(".gz")
    if base == "parquet":
        parquet(path, [{"fr": source, "en": target} for source, target in pairs])
    elif base == "jsonl":
        rows = (json.dumps({"en": t, "fr": s}, ensure_ascii=False) + "\n" for s, t in pairs)
        put(path, "".join(rows))
    elif base == "csv":
        stream = io.StringIO()
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("fr", "n", "en"), *with_n(pairs)])
        put(path, stream.getvalue())
    else:
        put(path, "".join("\t".join(row) + "\n" for row in [("fr", "n", "en"), *with_n(pairs)]))
    return {"file": str(path), "source": "fr", "target": "en"}


def with_n(pairs: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(source, str(n), target) for n, (source, target) in enumerate(pairs)]


def put(path: Path, text: str | bytes) -> Path:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Write pairs as files of a kind, bytes changed; gives the settings of the part."""

    def run(
        kind: str, pairs: list[tuple[str, str]], change: Callable[[bytes], bytes] | None = None
    ) -> dict[str, Any]:
        table = written(tmp_path, kind, pairs)
        names = [table["file"]] if "file" in table else [table["source"], table["target"]]
        for path in map(Path, names):
            if change is not None:
                data = path.read_bytes()
                packed = path.suffix == ".gz"
                put(path, change(gzip.decompress(data) if packed else data))
        return table

    return run


@pytest.fixture
def stream() -> Callable[..., PairStream]:
    """The training part with some settings, of which nothing is read yet."""
    return stream_of
