"""Rows to be fine-tuned on: texts with labels, prompts with answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from headway.settings.base import Settings
from headway.settings.data import Column, HubReader, TableReader

Shortest = Annotated[int, Field(ge=8)]  # room for a frame and some words


class _Labelled(Settings):
    """`second` is the second text of a pair."""

    text: Column
    second: Column | None = None
    label: Column


class LabelTable(_Labelled, TableReader):
    """A table with a labelled text, or pair of texts, a row."""


class HubLabels(_Labelled, HubReader):
    """Labelled rows of a hub data set."""


def _which(value: Any) -> str:
    hub = isinstance(value, HubReader) or (isinstance(value, dict) and "hub" in value)
    return "dataset" if hub else "table"


LabelPart = Annotated[
    Annotated[LabelTable, Tag("table")] | Annotated[HubLabels, Tag("dataset")],
    Discriminator(_which),
]


class LabelSettings(Settings):
    """Texts, or pairs of texts, and what is to be told of them.

    `labels` are the classes as the data write them; those of the training part, in order, if not
    set. With `regression` the label is a number. Texts are cut to `max_tokens`, the longer of a
    pair first. `held_out` is the share of the training part's texts that becomes valid, and the
    share that becomes test, if they are not there; a hash of the (first) text chooses.
    """

    kind: Literal["labels"]
    train: LabelPart
    valid: LabelPart | None = None
    test: LabelPart | None = None
    labels: Annotated[list[str], Field(min_length=2)] | None = None
    regression: bool = False
    max_tokens: Shortest = 128
    held_out: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    @model_validator(mode="after")
    def _classes_are_some_or_none(self) -> Self:
        if self.regression and self.labels is not None:
            raise ValueError("with regression the label is a number: leave out labels")
        labels = self.labels or []
        for label in set(labels):
            if labels.count(label) > 1:
                raise ValueError(f"labels are classes, and '{label}' stands in it twice")
        for name, part in (("valid", self.valid), ("test", self.test)):
            if part is not None and (part.second is None) != (self.train.second is None):
                pairs, texts = ("train", name) if part.second is None else (name, "train")
                raise ValueError(f"data.{pairs} has a second text, and data.{texts} has none")
        _refuse_held_out(self.held_out, self.valid, self.test)
        return self


class _Answered(Settings):
    """A prompt and its answer a row; or in `messages` a conversation, as JSON."""

    prompt: Column = "prompt"
    answer: Column = "answer"
    messages: Column | None = None


class AnswerTable(_Answered, TableReader):
    """A table with a prompt and its answer, or a conversation, a row."""


class HubAnswers(_Answered, HubReader):
    """Prompts and answers, or conversations, of a hub data set."""


AnswerPart = Annotated[
    Annotated[AnswerTable, Tag("table")] | Annotated[HubAnswers, Tag("dataset")],
    Discriminator(_which),
]


class AnswerSettings(Settings):
    """Prompts and the answers that a language model is to give; only these are learnt.

    With `chat` a prompt is framed as a user's message by the template of the tokeniser, as the
    turns of a conversation always are. A row of more than `max_tokens` is cut at its end.
    """

    kind: Literal["answers"]
    train: AnswerPart
    valid: AnswerPart | None = None
    test: AnswerPart | None = None
    chat: bool = False
    max_tokens: Shortest = 512
    held_out: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    @model_validator(mode="after")
    def _held_out_is_missing(self) -> Self:
        _refuse_held_out(self.held_out, self.valid, self.test)
        return self


def _refuse_held_out(share: float, valid: object, test: object) -> None:
    if share and valid is not None and test is not None:
        raise ValueError(
            f"held_out = {share} makes the parts that a recipe does not have, and this one has "
            "both valid and test: set held_out = 0"
        )
