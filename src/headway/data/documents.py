"""Documents of a source as a stream, clean and counted, as often as they are asked for."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from headway.base.errors import UserError
from headway.data.builtin_text import pydoc_documents, stdlib_documents
from headway.data.held_out import HELD, HeldOut
from headway.data.lines import stream_lines
from headway.data.near import NearSeen
from headway.data.notes import DUPLICATE, JUDGED, MOJIBAKE, NEAR, Notes
from headway.data.pair_stream import FEW, WRONG, Hashes, Seen
from headway.data.rows import Bad, Row, Wanted, expand, undecodable
from headway.data.tables import PartName, dataset_rows, hub_origin, table_rows
from headway.settings.documents import (
    BuiltinTexts,
    DocumentSettings,
    DocumentSource,
    HubTexts,
    TextFiles,
    TextTable,
)

BLOCK = 64  # documents that are in memory at a time
EMPTY = "no text"
_BUILTIN = {"builtin:stdlib": stdlib_documents, "builtin:pydoc": pydoc_documents}


class Memory:
    """The documents that the sources of a part have had so far in a pass over all of them.

    `judged` are those of `others`, the parts of other files that a model is judged on.
    """

    def __init__(
        self, near: bool, held: Callable[[], Iterable[str]], others: Sequence[DocumentStream] = ()
    ) -> None:
        self._wants_near, self._held, self._begun = near, held, set[str]()
        self._others = others
        self.seen, self.judged = Seen(), Seen()
        self.near: NearSeen | None = None

    def begin(self, source: str) -> None:
        """A pass over a source begins: over the first one, perhaps again, or over the next one."""
        if source in self._begun or not self._begun:
            if not self._begun:
                for block in chain.from_iterable(other.blocks() for other in self._others):
                    self.judged.add(_hashes(block))
            self.seen, self._begun = Seen(), set()
            self.near = NearSeen("data.duplicates") if self._wants_near else None
            if self.near is not None:
                for text in self._held():  # what a model is judged on must not be almost learnt
                    self.near.add(text)
        self._begun.add(source)


@dataclass
class DocumentStream:
    """The usable documents of a source. Each pass reads anew and must find the same.

    What comes twice is known by the `memory` that the sources of a part share: a pass over all of
    them goes in their order.

    Raises UserError, at the end of a pass, if too many rows are bad, if none is left (of what is
    held out there may be none), or if the content is not that of the pass before.
    """

    part: DocumentSource
    key: str
    name: PartName
    memory: Memory
    drop_duplicates: bool = False
    held_out: HeldOut | None = None
    notes: Notes = field(default_factory=Notes, init=False)
    kept: int = field(default=0, init=False)
    _digest: str | None = field(default=None, init=False)

    @property
    def origin(self) -> str:
        """What messages call the source."""
        held = f", {HELD[self.name]}" if self._is_held else ""
        return _origin(self.part, self.name) + held

    @property
    def _is_held(self) -> bool:
        """Whether its documents are some of a training source's: of a small one perhaps none."""
        return self.held_out is not None and self.name != "train"

    def blocks(self) -> Iterator[list[str]]:
        """One pass over the documents."""
        self.notes, self.kept, content, read, bad = Notes(), 0, hashlib.sha256(), 0, 0
        self.memory.begin(self.key)
        rows = _rows(self.part, self.key, self.name)
        while some := list(islice(rows, BLOCK)):
            read += len(some)
            bad += sum(isinstance(row, Bad) for row in some)
            if bad and self.part.bad == "refuse":
                raise self._too_bad(bad, read, "so far")
            kept = self._unrepeated(list(self._own(some)))
            for text in kept:
                content.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
            self.kept += len(kept)
            if kept:
                yield kept
        if self.part.bad == "few" and bad > FEW * read:
            raise self._too_bad(bad, read, f"more than {FEW:.0%}")
        held = sum(self.notes.count(kind) for kind in HELD.values())
        if held and not self.kept:
            todo = "give more documents, or lower data.held_out"
            raise UserError(f"all {held:,} documents are held out", where=self.origin, todo=todo)
        if not self.kept and not self._is_held:
            raise UserError("there is no document with text", where=self.origin)
        if self._digest not in (None, content.hexdigest()):
            raise UserError(
                "the data changed while they were being read",
                where=self.origin,
                todo="start again when nothing writes to them",
            )
        self._digest = content.hexdigest()

    def texts(self) -> Iterator[str]:
        """One pass over the documents, one by one."""
        for block in self.blocks():
            yield from block

    def digest(self) -> str:
        """SHA-256 of the content; to be asked for after a pass."""
        assert self._digest is not None, "nothing has been read yet"
        return self._digest

    def _own(self, rows: Iterable[Row | Bad]) -> Iterator[Row]:
        """The documents of this part that have text."""
        for row in rows:
            if isinstance(row, Bad):
                self.notes.add(row.kind, row.number, row.text, dropped=True)
                continue
            text = row.texts[0]
            if not text.strip():
                self.notes.add(EMPTY, row.number, "", dropped=True)
                continue
            part = self.name if self.held_out is None else self.held_out.part(text)
            if part != self.name:
                if self.name == "train":
                    self.notes.add(HELD[part], row.number, text, dropped=True)
                continue
            if WRONG.search(text):
                self.notes.add(MOJIBAKE, row.number, text)
            yield row

    def _unrepeated(self, rows: list[Row]) -> list[str]:
        if not rows:
            return []
        hashes = _hashes(row.texts[0] for row in rows)
        repeated = self.memory.seen.add(hashes).tolist()
        judged = self.memory.judged.has(hashes).tolist()
        kept = []
        for row, again, also in zip(rows, repeated, judged, strict=True):
            text = row.texts[0]
            if again:
                self.notes.add(DUPLICATE, row.number, text, dropped=self.drop_duplicates)
            if again and self.drop_duplicates:
                continue
            if self.memory.near is not None and self.memory.near.add(text):
                self.notes.add(NEAR, row.number, text, dropped=True)
                continue
            if also:
                self.notes.add(JUDGED, row.number, text)
            kept.append(text)
        return kept

    def _too_bad(self, bad: int, read: int, how: str) -> UserError:
        kinds = ", ".join(f"{each.count:,} with {each.kind}" for each in self.notes.dropped())
        return UserError(
            f"{bad:,} of {read:,} documents cannot be used, {how}: {kinds}",
            where=self.origin,
            todo=f"correct them, or leave out any number of them with {self.key}.bad = 'drop'",
        )


def document_streams(settings: DocumentSettings, name: PartName) -> dict[str, DocumentStream]:
    """The sources of a part; those held out of the training sources if the recipe has none."""
    missing: tuple[PartName, ...] = tuple(part for part in HELD if not getattr(settings, part))
    held_out = HeldOut(settings.held_out, missing) if settings.held_out else None
    held = held_out is not None and name in missing
    own: PartName = "train" if held else name

    def held_texts() -> Iterator[str]:
        for part in missing if name == "train" and held_out is not None else ():
            for stream in document_streams(settings, part).values():
                yield from stream.texts()

    own_parts = [part for part in HELD if part not in missing] if name == "train" else []
    others = [stream for part in own_parts for stream in document_streams(settings, part).values()]
    memory = Memory(settings.duplicates == "near", held_texts, others)
    return {
        source: DocumentStream(
            part,
            f"data.{own}.{source}",
            name,
            memory,
            drop_duplicates=settings.duplicates != "keep",
            held_out=held_out if own == "train" else None,
        )
        for source, part in getattr(settings, own).items()
    }


def _hashes(texts: Iterable[str]) -> Hashes:
    """A number below 2^64 for each text."""
    data = (text.encode("utf-8", "surrogatepass") for text in texts)
    digests = b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in data)
    return np.frombuffer(digests, np.uint64)


def _origin(part: DocumentSource, name: PartName) -> str:
    if isinstance(part, TextFiles):
        return part.files
    if isinstance(part, TextTable):
        return f"{part.file}, column {part.text}"
    if isinstance(part, HubTexts):
        return hub_origin(part, name)
    return part.corpus


def _rows(part: DocumentSource, key: str, name: PartName) -> Iterator[Row | Bad]:
    if isinstance(part, TextTable):
        return table_rows(part, Wanted({"text": part.text}, key))
    if isinstance(part, HubTexts):
        return dataset_rows(part, Wanted({"text": part.text}, key), name)
    found = _builtin(part) if isinstance(part, BuiltinTexts) else _files(part, key)
    return islice(found, part.lines)


def _builtin(part: BuiltinTexts) -> Iterator[Row]:
    for number, (_, text) in enumerate(_BUILTIN[part.corpus](), start=1):
        yield Row(number, (text,))


def _files(part: TextFiles, key: str) -> Iterator[Row | Bad]:
    pattern = expand(part.files, f"{key}.files")
    paths = sorted(glob.glob(pattern, recursive=True))
    if glob.has_magic(pattern):  # ** finds folders too
        paths = [path for path in paths if not os.path.isdir(path)]
    if not paths:
        raise UserError("there is no such file", where=pattern, todo="check the path")
    number = 0
    for path in paths:
        read = stream_lines(path, errors=part.errors, may_be_empty=True)
        for lines in _documents(read, part.document):
            number += 1
            text = [line for line in lines if isinstance(line, str)]
            bad = next((line for line in lines if isinstance(line, bytes)), None)
            if bad is not None:
                yield undecodable(number, bad)
            else:
                yield Row(number, ("".join(f"{line}\n" for line in text),))


def _documents(lines: Iterator[str | bytes], document: str) -> Iterator[list[str | bytes]]:
    """The lines of each document."""
    if document == "file":
        yield list(lines)
        return
    if document == "line":
        for line in lines:
            yield [line]
        return
    block: list[str | bytes] = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block
