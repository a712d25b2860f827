"""Telling labels: an encoder fine-tuned on texts, or pairs of texts, that have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch

from headway.base.files import to_json
from headway.batches.by_length import FramedRows, LabelBatches
from headway.checkpoint.run import RunFolder
from headway.data.examples import Examples
from headway.data.labelled import classes_of, read_labelled
from headway.data.tables import PartName
from headway.evaluate.labels import class_scores, number_scores
from headway.models.build import build_classifier
from headway.models.encoder import Classifier
from headway.runs.classifier import TextClassifier
from headway.runs.framing import framed_rows
from headway.runs.tasks.base import Judgement, Material
from headway.runs.tasks.ending import PASSAGES
from headway.runs.tasks.held import HeldTask
from headway.runs.text_tokenizers import recipe_tokenizer, run_tokenizer, tokenizer_files
from headway.settings.kinds import LabelRecipe
from headway.training.fine_tuning import PredictLabel, label_loss

LABELS = "labels.json"  # of a run: its classes, in the order of the head's rows


@dataclass(frozen=True)
class LabelledRows:
    """The rows of a part as they were read, and as they are framed; `labels` as numbers."""

    examples: Examples
    rows: FramedRows
    labels: np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LabelTask(HeldTask[TextClassifier, LabelledRows]):
    """A recipe for labelled texts, with its classes: none for a regression."""

    recipe: LabelRecipe
    classes: list[str] = field(default_factory=list)

    @classmethod
    def prepare(cls, recipe: LabelRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokeniser, encode."""
        classes = recipe.data.labels if folder is None else _stored_classes(folder)
        train = read_labelled(recipe.data, "train", classes or None)
        assert train is not None, "the settings require a training part"
        if not classes and not recipe.data.regression:
            classes = classes_of(train)
        texts = (text for row in train.rows for text in row[:-1])
        tokenizer = recipe_tokenizer(recipe.model, recipe.tokenizer, folder, texts)
        steps = recipe.train.for_rows(len(train))
        recipe = recipe.model_copy(update={"train": steps})
        task = cls(recipe, tokenizer, classes=classes or [])
        valid, valid_hashes = task.held("valid")
        test, test_hashes = task.held("test")
        rows = {"train": task.encode(train), "valid": valid, "test": test}
        material = task._material(
            {name: part for name, part in rows.items() if part is not None},
            {"train": train.digest(), **valid_hashes, **test_hashes},
        )
        return replace(task, material=material, valid=valid, test=test)

    @classmethod
    def read(cls, recipe: LabelRecipe, folder: RunFolder) -> Self:
        """The tokeniser and the classes of a run."""
        return cls(recipe, run_tokenizer(folder), classes=_stored_classes(folder))

    @property
    def sizes(self) -> Mapping[str, int]:
        """Of the vocabulary, and of the head."""
        return {**super().sizes, "n_classes": len(self.classes) or 1}

    def held(self, name: PartName) -> tuple[LabelledRows | None, dict[str, str]]:
        """All rows of the part."""
        found = read_labelled(self.recipe.data, name, self.classes or None)
        return (None, {}) if found is None else (self.encode(found), {name: found.digest()})

    @property
    def longest(self) -> int:
        """The most ids of a row."""
        return min(self.recipe.data.max_tokens, self.recipe.model.max_length)

    def build(self) -> Classifier:
        """The model with its first weights."""
        return build_classifier(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: Classifier, device: torch.device) -> TextClassifier:
        """The model with its tokeniser."""
        return TextClassifier(
            model,
            self.tokenizer,
            self.recipe.model,
            self.classes or None,
            longest=self.longest,
            device=device,
            pairs=self.recipe.data.train.second is not None,
        )

    def facts(self, opened: TextClassifier) -> dict[str, str]:
        """What the report tells of the model."""
        return {**super().facts(opened), "labels": ", ".join(self.classes) or "numbers"}

    def encode(self, examples: Examples) -> LabelledRows:
        """The rows of a part, framed, their labels as numbers."""
        told = examples.column(-1)
        seconds = examples.column(1) if len(examples.rows[0]) == 3 else None
        n_segments = self.recipe.model.n_segments
        rows = framed_rows(
            self.tokenizer,
            examples.column(0),
            seconds,
            longest=self.longest,
            n_segments=n_segments,
        )
        if self.recipe.data.regression:
            return LabelledRows(
                examples, rows, np.array([float(each) for each in told], np.float32)
            )
        places = {label: place for place, label in enumerate(self.classes)}
        return LabelledRows(examples, rows, np.array([places[each] for each in told], np.int64))

    def judged(self, opened: TextClassifier, part: LabelledRows) -> Judgement:
        """How many labels it tells."""
        outputs = opened.outputs(part.rows, batch_tokens=self.recipe.evaluate.batch_tokens)
        regression = self.recipe.data.regression
        loss = label_loss(outputs, torch.from_numpy(part.labels), 0.0, regression)
        nll = float(loss.nll) / len(part.labels)
        scores = label_scores(outputs, part.labels, n_classes=len(self.classes))
        metric = self.recipe.evaluate.metric
        record: dict[str, Any] = {"nll": nll, **scores, "rows": len(part.labels)}
        if metric != "loss":
            record["score"] = scores[metric]
        record[PASSAGES] = self._passages(outputs, part)
        shown = "  ".join(f"{name} {value:.1f}" for name, value in scores.items())
        worth = -nll if metric == "loss" else scores[metric]
        return Judgement(record, worth, f"loss {nll:.3f}  {shown}")

    def _passages(self, outputs: torch.Tensor, part: LabelledRows) -> list[dict[str, str]]:
        """Some rows, what they are, and what the model says they are."""
        n = min(self.recipe.evaluate.samples, len(part.examples))
        places = np.linspace(0, len(part.examples) - 1, n).astype(int).tolist()
        return [
            {
                **dict(zip(("text", "second"), part.examples.rows[place][:-1], strict=False)),
                "label": part.examples.rows[place][-1],
                "told": self._told(outputs[place]),
            }
            for place in places
        ]

    def _told(self, output: torch.Tensor) -> str:
        if not self.classes:
            return f"{float(output[0]):.2f}"
        probability, best = output.softmax(dim=-1).max(dim=-1)
        return f"{self.classes[int(best)]} ({float(probability):.0%})"

    def _material(self, parts: Mapping[str, LabelledRows], hashes: Mapping[str, str]) -> Material:
        settings, train = self.recipe.train, parts["train"]
        batches = LabelBatches(
            train.rows,
            train.labels,
            settings.batch_rows,
            self.recipe.seed,
            pad=self.tokenizer.roles.pad or 0,
        )
        regression = self.recipe.data.regression
        return Material(
            batches,
            PredictLabel(settings.label_smoothing, regression=regression),
            {**tokenizer_files(self.tokenizer), LABELS: to_json(self.classes)},
            hashes,
            tuple(self._notices(parts)),
        )

    def _notices(self, parts: Mapping[str, LabelledRows]) -> list[str]:
        train = parts["train"]
        told = [line for name, part in parts.items() for line in part.examples.notices(name)]
        if self.classes:
            counts = np.bincount(train.labels, minlength=len(self.classes)) / len(train.labels)
            shares = zip(self.classes, counts, strict=True)
            told.append(", ".join(f"{label} {share:.1%}" for label, share in shares))
        full = int((train.rows.ids.lengths >= self.longest).sum())
        if full:
            told.append(f"{full:,} training rows have {self.longest} tokens or more: cut to that")
        steps = self.recipe.train.steps
        return [*told, f"{steps:,} steps of {self.recipe.train.batch_rows} rows"]


def label_scores(
    outputs: torch.Tensor, labels: np.ndarray[Any, np.dtype[Any]], *, n_classes: int
) -> dict[str, float]:
    """The scores of a classifier's outputs (N, classes), or (N, 1) with 0 classes: a regression."""
    if n_classes:
        return class_scores(labels, outputs.argmax(dim=-1).numpy(), n_classes)
    return number_scores(labels.astype(np.float64), outputs[:, 0].double().numpy())


def _stored_classes(folder: RunFolder) -> list[str]:
    found: list[str] = json.loads(folder.tokenizer_text(LABELS))
    return found
