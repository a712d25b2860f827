"""The nine tasks of GLUE (Wang et al., 2019) as recipes, with BERT's settings for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from headway.base.errors import unknown

FILES = "${HEADWAY_DATA}/glue"  # the folder in which each task has its own
HUB = "hub:"  # what follows is a data set of the hub with the tasks as its configurations
Column = str | int


class GlueTask(NamedTuple):
    """A task as its files circulate: the columns are names, or numbers of files without a head.

    The first of the official metrics chooses the best weights. `hub` are the columns of texts in
    the data set of the hub, `named` is what that calls the labels that the files call 0 and 1,
    where it has names of its own.
    """

    description: str
    folder: str
    columns: tuple[Column, ...]  # of the text, the second text if there is one, the label
    hub: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    valid: str = "dev"
    test: str | None = None
    named: tuple[str, str] | None = None

    @property
    def regression(self) -> bool:
        """Whether the label is a number."""
        return "pearson" in self.metrics


_SENTENCES = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")
_SPLITS = {"dev": "validation", "dev_matched": "validation_matched"}
_SPLITS |= {"dev_mismatched": "validation_mismatched"}
GLUE: dict[str, GlueTask] = {
    "glue/cola": GlueTask(
        "Is a sentence grammatical? (CoLA)",
        "CoLA",
        (3, 1),
        ("sentence",),
        ("matthews",),
        named=("unacceptable", "acceptable"),
    ),
    "glue/sst2": GlueTask(
        "Is a review positive? (SST-2)",
        "SST-2",
        ("sentence", "label"),
        ("sentence",),
        named=("negative", "positive"),
    ),
    "glue/mrpc": GlueTask(
        "Do two sentences say the same? (MRPC)",
        "MRPC",
        ("#1 String", "#2 String", "Quality"),
        _SENTENCES,
        ("f1", "accuracy"),
        named=("not_equivalent", "equivalent"),
    ),
    "glue/stsb": GlueTask(
        "How alike are two sentences, from 0 to 5? (STS-B)",
        "STS-B",
        (*_SENTENCES, "score"),
        _SENTENCES,
        ("pearson", "spearman"),
    ),
    "glue/qqp": GlueTask(
        "Do two questions ask the same? (QQP)",
        "QQP",
        (*_QUESTIONS, "is_duplicate"),
        _QUESTIONS,
        ("f1", "accuracy"),
        named=("not_duplicate", "duplicate"),
    ),
    "glue/mnli": GlueTask(
        "Does a sentence follow, contradict, or neither? (MNLI)",
        "MNLI",
        (*_SENTENCES, "gold_label"),
        ("premise", "hypothesis"),
        valid="dev_matched",
        test="dev_mismatched",
    ),
    "glue/qnli": GlueTask(
        "Does a sentence answer a question? (QNLI)",
        "QNLI",
        ("question", "sentence", "label"),
        ("question", "sentence"),
    ),
    "glue/rte": GlueTask(
        "Does a sentence follow from another? (RTE)", "RTE", (*_SENTENCES, "label"), _SENTENCES
    ),
    "glue/wnli": GlueTask(
        "Who is meant by a pronoun? (WNLI)",
        "WNLI",
        (*_SENTENCES, "label"),
        _SENTENCES,
        named=("not_entailment", "entailment"),
    ),
}


def glue_data(name: str, folder: str | None = None) -> dict[str, Any]:
    """The table `data` of a task's recipe.

    `folder` is the one in which each task has its own, or a data set of the hub behind `HUB`;
    `FILES` if it is None. Raises UserError for an unknown task.
    """
    if name not in GLUE:
        raise unknown("task", name, GLUE)
    task = GLUE[name]
    parts = {"train": "train", "valid": task.valid, "test": task.test}
    settings: dict[str, Any] = {"kind": "labels", "max_tokens": 128}
    if task.regression:
        settings["regression"] = True
    hub = (folder or FILES).startswith(HUB)
    columns = (*task.hub, "label") if hub else task.columns
    for part, file in parts.items():
        if file is not None:
            place: dict[str, Any] = {"file": f"{folder or FILES}/{task.folder}/{file}.tsv"}
            if hub:
                place = {"hub": (folder or "").removeprefix(HUB), "config": name.partition("/")[2]}
                place["split"] = _SPLITS.get(file, file)
            settings[part] = {**place, **dict(zip(_names(task), columns, strict=True))}
    return settings


def glue_recipe(name: str) -> dict[str, Any]:
    """The recipe of a task; what the model begins from is left to be told.

    Batches of 32 rows, 3 passes, at most 128 tokens, the learning rate falling from 2e-5 (Devlin et
    al., 2019, section 4.1 and appendix A.3).
    """
    task = GLUE[name]
    return {
        "description": task.description,
        "data": glue_data(name),
        "model": {"kind": "encoder", "from": "", "pooler": True},
        "train": {"epochs": 3.0, "batch_rows": 32, "learning_rate": 2e-5},
        "evaluate": {"metric": task.metrics[0]},
    }


def _names(task: GlueTask) -> tuple[str, ...]:
    return ("text", "label") if len(task.columns) == 2 else ("text", "second", "label")
