"""GLUE (Wang et al., 2019) as it circulates: tab-separated files, each task's in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headway.base.errors import UserError, unknown
from headway.data.delimited import Fields, literal_records
from headway.data.lines import stream_lines

_NLI = ("entailment", "not_entailment")


class GlueFormat(NamedTuple):
    """How a task's files are written: `columns` where they have no head, `labels` in order.

    `valid` is the file with labels that is not for training; quotes are text in all of them.
    """

    folder: str
    label: str
    labels: tuple[str, ...]
    columns: tuple[str, ...] = ()
    valid: str = "dev.tsv"


GLUE: Mapping[str, GlueFormat] = {
    "cola": GlueFormat("CoLA", "label", ("0", "1"), ("source", "label", "mark", "sentence")),
    "sst2": GlueFormat("SST-2", "label", ("0", "1")),
    "mrpc": GlueFormat("MRPC", "Quality", ("0", "1")),
    "qqp": GlueFormat("QQP", "is_duplicate", ("0", "1")),
    "mnli": GlueFormat(
        "MNLI", "gold_label", ("entailment", "neutral", "contradiction"), valid="dev_matched.tsv"
    ),
    "qnli": GlueFormat("QNLI", "label", _NLI),
    "rte": GlueFormat("RTE", "label", _NLI),
    "wnli": GlueFormat("WNLI", "label", ("0", "1")),
}


class GlueRow(NamedTuple):
    """The cells of a row by the names of their columns, and which of the labels it has.

    `line` is where it stands in the file, counted from 1.
    """

    line: int
    cells: dict[str, str]
    label: int


def glue_file(task: str, data: Path, part: str) -> Path:
    """Where the "train" or "valid" part lies: in `data`, or in the task's folder in there.

    Raises UserError for a task that is not known.
    """
    if task not in GLUE:
        raise unknown("task of GLUE", task, GLUE)
    folder = data / GLUE[task].folder
    name = "train.tsv" if part == "train" else GLUE[task].valid
    return (folder if folder.is_dir() else data) / name


def read_glue(task: str, path: Path) -> list[GlueRow]:
    """The rows of a task's file; one of another width than the head is left out (QQP has some).

    Raises UserError if the columns are not the task's, or a label is none of its.
    """
    known = GLUE[task]
    names, found = known.columns, []
    for record in literal_records(stream_lines(path), "\t"):
        if not isinstance(record, Fields):
            continue
        if not names:
            names = tuple(record.cells)
            if known.label not in names:
                raise unknown("column", known.label, names, where=f"{path}:1")
            continue
        if len(record.cells) != len(names):
            continue
        cells = {name: cell.strip() for name, cell in zip(names, record.cells, strict=True)}
        if cells[known.label] not in known.labels:
            raise UserError(
                f"'{cells[known.label]}' is no label of {task}",
                where=f"{path}:{record.number}",
                todo=f"known: {', '.join(known.labels)}",
            )
        found.append(GlueRow(record.number, cells, known.labels.index(cells[known.label])))
    if not found:
        raise UserError(f"no row has the {len(names)} columns of {task}", where=str(path))
    return found
