"""Judging a classifier on a task of GLUE by its official metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.errors import UserError
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
    classifier: TextClassifier, name: str, folder: Path | None = None
) -> list[TaskScores]:
    """The official scores on the validation files of a task; those of its test have no labels.

    `folder` has the tasks' own folders; ${HEADWAY_DATA}/glue if it is None. Raises UserError for an
    unknown task, files that are not there, and a classifier of other labels.
    """
    settings, task = task_data(name, folder), GLUE[name]
    if task.regression != (classifier.labels is None):
        what = "numbers" if task.regression else "labels"
        raise UserError(f"{name} asks for {what}, which this classifier does not give")
    return [
        found
        for part in ("valid", "test")
        if (found := _judged(classifier, settings, part, task)) is not None
    ]


def task_data(name: str, folder: Path | None) -> LabelSettings:
    """The files of a task, in the tasks' `folder` or in ${HEADWAY_DATA}/glue.

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


def _judged(
    classifier: TextClassifier, settings: LabelSettings, part: PartName, task: GlueTask
) -> TaskScores | None:
    labels = as_in_files(classifier.labels, task)
    examples = read_labelled(settings, part)
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
        places = outputs.argmax(dim=-1).numpy()
        known = {label: place for place, label in enumerate(labels)}
        right = np.array([known[each] for each in examples.column(-1)])
        scores = class_scores(right, places, len(known))
        told = [labels[place] for place in places]
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
    names = dict(zip(task.named or (), ("0", "1"), strict=False))
    if labels is None or set(labels) != set(names):
        return labels
    return [names[label] for label in labels]
