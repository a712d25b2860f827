"""Judging a classifier on a task of GLUE by its official metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.errors import UserError
from headway.data.examples import Examples
from headway.data.labelled import read_labelled
from headway.data.rows import expand
from headway.data.tables import PartName
from headway.evaluate.labels import class_scores, number_scores
from headway.runs.classifier import TextClassifier
from headway.settings.base import parse
from headway.settings.glue import FILES, GLUE, GlueTask, glue_data
from headway.settings.rows import LabelSettings


@dataclass(frozen=True)
class TaskScores:
    """What was found on one file of a task; `told` is what the classifier said of each row."""

    file: str
    digest: str
    n: int
    scores: dict[str, float]
    told: list[str] | list[float]
    notices: list[str]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "file": self.file,
            "data": self.digest,
            "rows": self.n,
            **self.scores,
            "told": self.told,
        }


def evaluate_task(
    classifier: TextClassifier, name: str, folder: str | Path | None = None
) -> list[TaskScores]:
    """The official scores on the validation files of a task; those of its test have no labels.

    `folder` has the tasks' own folders; ${HEADWAY_DATA}/glue if it is None, and hub:NAME a data set
    of the hub, such as hub:nyu-mll/glue. Raises UserError for an unknown task, files that are not
    there, and a classifier of other labels.
    """
    settings, task = task_data(name, folder), GLUE[name]
    if task.regression != (classifier.labels is None):
        what = "numbers" if task.regression else "labels"
        raise UserError(f"{name} asks for {what}, which this classifier does not give")
    return [
        found
        for part in ("valid", "test")
        if (found := _judged(classifier, settings, part, name)) is not None
    ]


def task_data(name: str, folder: str | Path | None) -> LabelSettings:
    """The data of a task, in the tasks' `folder`, in ${HEADWAY_DATA}/glue, or of the hub.

    Raises UserError for an unknown task, and if neither is set.
    """
    table = glue_data(name, None if folder is None else str(folder))
    if folder is None:
        try:
            expand(FILES, name)
        except UserError as error:
            todo = f"{error.todo}, or name the folder with --glue DIR"
            raise UserError(error.what, where=error.where, todo=todo) from None
    return parse(LabelSettings, table, where=name)


def read_task(
    name: str, settings: LabelSettings, part: PartName, labels: Sequence[str] | None = None
) -> Examples | None:
    """The rows of a part of a task, with labels as the files have them wherever they come from.

    Raises UserError as `read_labelled` does, for labels that are none of `labels`.
    """
    names = _file_labels(GLUE[name])
    known = None if labels is None else {*labels, *names}
    found = read_labelled(settings, part, None if known is None else sorted(known))
    if found is None:
        return None
    return replace(found, rows=[(*texts, names.get(label, label)) for *texts, label in found.rows])


def _judged(
    classifier: TextClassifier, settings: LabelSettings, part: PartName, name: str
) -> TaskScores | None:
    task = GLUE[name]
    labels = as_in_files(classifier.labels, task)
    examples = read_task(name, settings, part)
    if examples is None:
        return None
    strange = sorted(set(examples.column(-1)) - set(labels or examples.column(-1)))
    if labels and strange:
        what = f"the classifier tells {', '.join(labels)}, and the labels here are {strange[0]}, …"
        raise UserError(what, where=examples.origin, todo="name the task that it was trained for")
    seconds = None if settings.train.second is None else examples.column(1)
    outputs = classifier.outputs(classifier.encode(examples.column(0), seconds))
    if labels is None:
        numbers = outputs[:, 0].double().numpy()
        truth = np.array([float(each) for each in examples.column(-1)])
        scores, told = number_scores(truth, numbers), numbers.tolist()
    else:
        told = [labels[place] for place in outputs.argmax(dim=-1).tolist()]
        places = {label: place for place, label in enumerate(sorted(labels))}  # F1 is that of "1"
        right, said = (
            np.array([places[each] for each in side]) for side in (examples.column(-1), told)
        )
        scores = class_scores(right, said, len(places))
    return TaskScores(
        examples.origin,
        examples.digest(),
        len(examples),
        {metric: scores[metric] for metric in task.metrics},
        told,
        [line for line in examples.notices(part) if "left out" in line],
    )


def as_in_files(labels: list[str] | None, task: GlueTask) -> list[str] | None:
    """The labels of a classifier, by the names of the files if it learnt them from the hub."""
    names = _file_labels(task)
    if labels is None or set(labels) != set(names):
        return labels
    return [names[label] for label in labels]


def _file_labels(task: GlueTask) -> dict[str, str]:
    """What the hub calls a label -> what the files call it, where they differ."""
    return dict(zip(task.named or (), ("0", "1"), strict=False))
