"""Documents as ids: the sources of a training part, and held-out text to be judged on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.base.errors import UserError
from headway.batches.on_disk import SideWriter
from headway.batches.packed import shares_of
from headway.batches.pairs import EncodedSide
from headway.data.documents import DocumentStream, document_streams
from headway.data.notes import Finding
from headway.data.tables import PartName
from headway.runs.unknown import Unknown, UnknownCounts
from headway.settings.documents import DocumentSettings
from headway.tokens.text import TextTokenizer

Encode = Callable[[Sequence[str]], list[list[int]]]
TESTED = 10  # times the rows of an evaluation are read for the test at the end
CORPUS = "data.json"  # of a run: what became of its training data


@dataclass(frozen=True)
class EncodedSource:
    """A source of documents as ids, their text in bytes of UTF-8, and what was noticed."""

    documents: EncodedSide
    n_bytes: int
    findings: tuple[Finding, ...]
    origin: str
    unknown: Unknown

    @property
    def tokens(self) -> int:
        """Ids, those that begin and end a document included."""
        return len(self.documents.ids)


def encode_source(
    stream: DocumentStream,
    encode: Encode,
    tokenizer: TextTokenizer,
    *,
    tokens: int | None = None,
) -> EncodedSource:
    """One pass over a source; it ends after the document with which there are `tokens` ids."""
    writer, n_bytes, written = SideWriter(), 0, 0
    counts = UnknownCounts(tokenizer)
    for texts in stream.blocks():
        rows = encode(texts)
        if tokens is not None:
            before = np.cumsum([written, *map(len, rows)])[:-1]
            n = int(np.searchsorted(before, tokens))
            rows, texts = rows[:n], texts[:n]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        writer.append(ids, lengths)
        counts.keep(ids, lengths, texts)
        written += len(ids)
        n_bytes += sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    findings = (*stream.notes.dropped(), *stream.notes.kept())
    return EncodedSource(writer.side(), n_bytes, findings, stream.origin, counts.found())


def encode_part(
    settings: DocumentSettings,
    name: PartName,
    encode: Encode,
    tokenizer: TextTokenizer,
    *,
    tokens: int | None = None,
) -> tuple[dict[str, EncodedSource], dict[str, str]]:
    """The sources of a part as ids, and the hashes of their texts.

    Sources of which nothing is held out are not among them. Raises UserError if none is left.
    """
    streams = document_streams(settings, name)
    found = {
        source: encode_source(stream, encode, tokenizer, tokens=tokens)
        for source, stream in streams.items()
    }
    if name != "train":
        found = {source: each for source, each in found.items() if each.tokens}
    if streams and not found:
        raise UserError(
            f"there is no document with text for {name}",
            where="data.held_out",
            todo="hold out a greater share",
        )
    return found, {f"{name}.{source}": stream.digest() for source, stream in streams.items()}


def refuse_few(sources: Mapping[str, EncodedSource], batch_tokens: int) -> None:
    """Raise UserError if there is not as much as a batch."""
    total = sum(source.tokens for source in sources.values())
    if total < batch_tokens:
        raise UserError(
            f"the training data have {total:,} tokens, fewer than one batch of {batch_tokens:,}",
            where=", ".join(source.origin for source in sources.values()),
            todo="give more data or lower train.batch_tokens",
        )


def corpus_report(
    sources: Mapping[str, EncodedSource], shares: Sequence[float], read: float
) -> dict[str, Any]:
    """What became of each source, as JSON can hold it, and how often a training reads it that
    reads so many tokens in all.
    """
    return {
        name: {
            "origin": source.origin,
            "documents": len(source.documents.lengths),
            "tokens": source.tokens,
            "bytes": source.n_bytes,
            "unknown": source.unknown.share,
            "share": share,
            "passes": round(share * read / source.tokens, 3),
            "findings": [
                {**finding.to_table(), "dropped": finding.dropped} for finding in source.findings
            ],
        }
        for (name, source), share in zip(sources.items(), shares, strict=True)
    }


def corpus_notices(report: Mapping[str, Any]) -> list[str]:
    """The report in sentences."""
    told = []
    for name, each in report.items():
        per_token = each["bytes"] / max(1, each["tokens"])
        told.append(
            f"{name}: {each['documents']:,} documents, {each['tokens']:,} tokens of "
            f"{per_token:.2f} bytes; {each['share']:.1%} of all, {each['passes']:.2f} passes"
        )
        told += [
            f"{name}: {finding['count']:,} documents "
            f"{'left out' if finding['dropped'] else 'kept'}: {finding['kind']}"
            for finding in each["findings"]
        ]
    return told


def unknown_in(parts: Mapping[str, Mapping[str, EncodedSource]], spoils: str) -> tuple[str, ...]:
    """A sentence for each source of a part with tokens that are unknown; what they spoil."""
    return tuple(
        notice
        for part, sources in parts.items()
        for name, source in sources.items()
        if (notice := source.unknown.told(f"{part}.{name}", spoils))
    )


def training_texts(data: DocumentSettings) -> Iterator[str]:
    """One pass over the documents of the training part."""
    for stream in document_streams(data, "train").values():
        yield from stream.texts()


def shares_in(data: DocumentSettings, train: Mapping[str, EncodedSource]) -> list[float]:
    """The share of each training source. Raises UserError for one without a token."""
    for name, source in train.items():
        if not source.tokens:
            raise UserError("the tokeniser finds nothing in it", where=f"data.train.{name}")
    weights = {name: part.weight for name, part in data.train.items()}
    tokens = {name: source.tokens for name, source in train.items()}
    return shares_of(tokens, weights, data.temperature)
