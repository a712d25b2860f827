"""Rows to be fine-tuned on: texts with labels, prompts with answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from headway.settings.base import Settings
from headway.settings.data import Column, HubReader, TableReader


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
    hub = isinstance(value, HubLabels) or (isinstance(value, dict) and "hub" in value)
    return "dataset" if hub else "table"


LabelPart = Annotated[
    Annotated[LabelTable, Tag("table")] | Annotated[HubLabels, Tag("dataset")],
    Discriminator(_which),
]


class LabelSettings(Settings):
    """Texts, or pairs of texts, and what is to be told of them.

    `labels` are the classes as the data write them; those of the training part, in order, if not
    set. With `regression` the label is a number. Texts are cut to `max_tokens`, the longer of a
    pair first. `held_out` is the share of the training part that becomes valid if there is none.
    """

    kind: Literal["labels"]
    train: LabelPart
    valid: LabelPart | None = None
    test: LabelPart | None = None
    labels: Annotated[list[str], Field(min_length=2)] | None = None
    regression: bool = False
    max_tokens: PositiveInt = 128
    held_out: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    @model_validator(mode="after")
    def _numbers_have_no_classes(self) -> Self:
        if self.regression and self.labels is not None:
            raise ValueError("with regression the label is a number: leave out labels")
        return self


class AnswerTable(TableReader):
    """A table with a prompt and its answer a row, or with a conversation (`messages`) a row."""

    prompt: Column = "prompt"
    answer: Column = "answer"
    messages: Column | None = None


class AnswerSettings(Settings):
    """Prompts and the answers that a language model is to give; only these are learnt.

    With `chat` a prompt is framed as a user's message by the template of the tokeniser.
    """

    kind: Literal["answers"]
    train: AnswerTable
    valid: AnswerTable | None = None
    test: AnswerTable | None = None
    chat: bool = False
    max_tokens: PositiveInt = 512
    held_out: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
