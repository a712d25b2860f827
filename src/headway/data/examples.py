"""Rows to be fine-tuned on, in memory: clean, counted, some of them held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headway.base.errors import UserError
from headway.data.held_out import HELD, HeldOut
from headway.data.notes import DUPLICATE, Finding, Notes
from headway.data.pair_stream import FEW
from headway.data.rows import Bad, Row, Wanted
from headway.data.tables import PartName, dataset_rows, hub_origin, table_rows
from headway.settings.data import HubReader, TableReader
from headway.settings.rows import AnswerSettings, LabelSettings

Fault = Callable[[Sequence[str]], str | None]
"""What is wrong with the texts of a row, None if nothing is."""
CONTRADICTORY = "seen before, and told otherwise"


@dataclass(frozen=True)
class Examples:
    """The texts of each row, the last of which is to be told, and what was noticed.

    `classes` are those that the last can be, in order, where the data say them.
    """

    rows: list[tuple[str, ...]]
    origin: str
    findings: tuple[Finding, ...]
    numbers: list[int]  # of the rows' lines
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, place: int) -> list[str]:
        """The texts of a column."""
        return [row[place] for row in self.rows]

    def first(self, n: int) -> Examples:
        """The first `n` rows."""
        return replace(self, rows=self.rows[:n], numbers=self.numbers[:n])

    def digest(self) -> str:
        """SHA-256 of the content, to tell later whether the data are still the same."""
        state = hashlib.sha256()
        for row in self.rows:
            for text in row:
                state.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        return state.hexdigest()

    def notices(self, part: str) -> list[str]:
        """What was read, in sentences."""
        told = [f"{part}: {len(self):,} rows"]
        for each in self.findings:
            what = "left out" if each.dropped else "kept"
            told.append(f"{part}: {each.count:,} rows {what}: {each.kind} ({each.lines()})")
        return told


def read_examples(
    settings: LabelSettings | AnswerSettings,
    name: PartName,
    wanted: Callable[[Any, str], Wanted],
    fault: Fault,
) -> Examples | None:
    """The rows of a part; None if the recipe has no such part and holds none out.

    Which part a row that is held out belongs to depends on its first text alone. Raises UserError
    where the data cannot be read, if too many rows are bad, and if none is left.
    """
    missing: tuple[PartName, ...] = tuple(part for part in HELD if getattr(settings, part) is None)
    held_out = HeldOut(settings.held_out, missing) if settings.held_out else None
    own: PartName = "train" if held_out is not None and name in missing else name
    part = getattr(settings, own)
    if part is None:
        return None
    key = f"data.{own}"
    reading = _Reading(part, key, name, fault, held_out if own == "train" else None)
    asked = wanted(part, key)._replace(classes={})
    found = reading.finish(_rows(part, asked, own))
    *_, last = asked.columns
    return replace(found, classes=(asked.classes or {}).get(last, ()))


def _rows(part: TableReader | HubReader, wanted: Wanted, name: PartName) -> Iterator[Row | Bad]:
    if isinstance(part, TableReader):
        return table_rows(part, wanted)
    return dataset_rows(part, wanted, name)


@dataclass
class _Reading:
    """One pass over the rows of a part."""

    part: TableReader | HubReader
    key: str
    name: PartName
    fault: Fault
    held_out: HeldOut | None

    @property
    def origin(self) -> str:
        own: PartName = "train" if self._is_held else self.name
        of = self.part.file if isinstance(self.part, TableReader) else hub_origin(self.part, own)
        return f"{of}, {HELD[self.name]}" if self._is_held else of

    @property
    def _is_held(self) -> bool:
        return self.held_out is not None and self.name != "train"

    def finish(self, rows: Iterator[Row | Bad]) -> Examples:
        """All of them, read."""
        notes, kept, n_read, n_bad = Notes(), list[Row](), 0, 0
        told = dict[tuple[str, ...], str]()
        for row in rows:
            n_read += 1
            if isinstance(row, Row) and (elsewhere := self._elsewhere(row)) is not None:
                if elsewhere:
                    notes.add(elsewhere, row.number, row.texts[0], dropped=True)
                continue
            kind = row.kind if isinstance(row, Bad) else self.fault(row.texts)
            if kind is not None:
                n_bad += 1
                shown = row.text if isinstance(row, Bad) else "\t".join(row.texts)
                notes.add(kind, row.number, shown, dropped=True)
                if self.part.bad == "refuse":
                    raise self._too_bad(n_bad, n_read, "so far", notes)
                continue
            assert isinstance(row, Row)
            asked, answer = row.texts[:-1] or row.texts, row.texts[-1]
            if asked in told:
                again = DUPLICATE if told[asked] == answer else CONTRADICTORY
                notes.add(again, row.number, row.texts[0])
            told[asked] = answer
            kept.append(row)
        if self.part.bad == "few" and n_bad > FEW * n_read:
            raise self._too_bad(n_bad, n_read, f"more than {FEW:.0%}", notes)
        if not kept:
            todo = "give more rows, or another data.held_out (0.0: none)" if self._is_held else None
            if any(notes.count(kind) for kind in HELD.values()):
                todo = "give more rows, or lower data.held_out"
            raise UserError("there is no row that can be used", where=self.origin, todo=todo)
        return Examples(
            [row.texts for row in kept],
            self.origin,
            (*notes.dropped(), *notes.kept()),
            [row.number for row in kept],
        )

    def _elsewhere(self, row: Row) -> str | None:
        """What to say of a row of another part; None if it is of this one."""
        part = self.name if self.held_out is None else self.held_out.part(row.texts[0])
        if part == self.name:
            return None
        return HELD[part] if self.name == "train" else ""

    def _too_bad(self, n_bad: int, n_read: int, how: str, notes: Notes) -> UserError:
        kinds = ", ".join(
            f"{each.count:,} with {each.kind} ({each.lines()})"
            for each in notes.dropped()
            if each.kind not in HELD.values()
        )
        return UserError(
            f"{n_bad:,} of {n_read:,} rows cannot be used, {how}: {kinds}",
            where=self.origin,
            todo=f"correct them, or leave out any number of them with {self.key}.bad = 'drop'",
        )
