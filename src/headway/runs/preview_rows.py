"""A look at what a training that is not about pairs of sentences reads, and what of it it learns.

No model is built for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.base.errors import UserError
from headway.batches.by_length import LabelBatch
from headway.batches.masked import MaskedBatch
from headway.batches.packed import PackedBatch
from headway.batches.sentences import ANOTHER, FOLLOWS
from headway.runs.tasks.all import task_of
from headway.runs.tasks.base import Task
from headway.settings.kinds import Recipe

_SHOWN = 60  # pieces of a stretch on a terminal
_SECOND = {FOLLOWS: "the text that follows", ANOTHER: "another text"}


class Stretch(NamedTuple):
    """Neighbours in a row of which the same is wanted: `what` is "read", "learnt", …"""

    what: str
    pieces: list[str]

    def __str__(self) -> str:
        more = ["…"] if len(self.pieces) > _SHOWN else []
        return " ".join(self.pieces[:_SHOWN] + more)


@dataclass(frozen=True)
class RowPreview:
    """What a training says of its data, and the first rows that it reads."""

    notices: tuple[str, ...]
    rows: list[list[Stretch]]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        rows = [[stretch._asdict() for stretch in row] for row in self.rows]
        return {"notices": list(self.notices), "rows": rows}

    def __rich__(self) -> RenderableType:
        """For a terminal."""
        table = Table(title="the first rows", title_justify="left", title_style="bold")
        table.box = box.SIMPLE_HEAD
        for name in ("row", "", "pieces"):
            table.add_column(name, justify="right" if name == "row" else "left")
        for number, row in enumerate(self.rows, 1):
            for place, stretch in enumerate(row):
                learnt = "" if stretch.what == "learnt" else "dim"
                table.add_row(
                    "" if place else f"{number:,}",
                    stretch.what,
                    Text(str(stretch), style=learnt),
                    end_section=stretch is row[-1],
                )
        return Group(*(Text(notice) for notice in self.notices), table)


def preview_rows(recipe: Recipe, *, n: int) -> RowPreview:
    """Prepare the training part as a training does, and take its first `n` rows.

    Raises UserError as a training does.
    """
    task = task_of(recipe).prepare(recipe, None)
    assert task.material is not None, "it was prepared"
    return RowPreview(task.material.notices, list(itertools.islice(_rows(task), n)))


def refuse_part(part: str) -> None:
    """Raise UserError for another part than the training's."""
    if part != "train":
        raise UserError(
            "of this kind of recipe only the training part can be looked at",
            where=f"--part {part}",
            todo="leave --part away, or name the file as data.train",
        )


def _rows(task: Task[Any]) -> Iterator[list[Stretch]]:
    """The rows of the first pass, in its order."""
    assert task.material is not None
    batches = task.material.batches
    for rows in batches.epoch(0):
        batch = batches.batch(0, rows)
        for row in range(len(batch.ids)):
            yield _row(task, batch, row)


def _row(task: Any, batch: PackedBatch | MaskedBatch | LabelBatch, row: int) -> list[Stretch]:
    pieces = task.tokenizer.pieces
    if isinstance(batch, PackedBatch):
        ids = torch.cat((batch.ids[row, :1], batch.following[row])).tolist()
        learnt = [False, *batch.predicted[row].tolist()]
        end = max((place for place, each in enumerate(learnt) if each), default=0) + 1
        runs = itertools.groupby(range(end), key=learnt.__getitem__)
        return [
            Stretch("learnt" if each else "read", pieces([ids[place] for place in places]))
            for each, places in runs
        ]
    read = Stretch("read", pieces(batch.ids[row][batch.real[row]].tolist()))
    if isinstance(batch, MaskedBatch):
        owners = batch.chosen.nonzero()[:, 0]
        found = [read, Stretch("learnt", pieces(batch.targets[owners == row].tolist()))]
        second = None if batch.relation is None else _SECOND.get(int(batch.relation[row]))
        return found if second is None else [*found, Stretch("learnt", [f"second: {second}"])]
    label = batch.labels[row].item()
    return [read, Stretch("learnt", [task.classes[label] if task.classes else f"{label:g}"])]
