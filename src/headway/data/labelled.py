"""Texts, or pairs of texts, with what is to be told of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headway.base.errors import UserError
from headway.data.examples import Examples, read_examples
from headway.data.rows import Wanted
from headway.data.tables import PartName
from headway.settings.rows import LabelPart, LabelSettings

NO_TEXT = "no text"
NO_LABEL = "no label"
NO_NUMBER = "a label that is no number"
NO_CLASS = "a label that is not among the classes"


def read_labelled(
    settings: LabelSettings, name: PartName, labels: Sequence[str] | None = None
) -> Examples | None:
    """The rows of a part: text, perhaps a second text, label. None if there is no such part.

    A row without text is left out, and so is one whose label is none of `labels`, or, for a
    regression, no number. Raises UserError as `read_examples` does.
    """
    known = None if labels is None else frozenset(labels)

    def fault(texts: Sequence[str]) -> str | None:
        *asked, label = texts
        if not all(text.strip() for text in asked):
            return NO_TEXT
        if not label.strip():
            return NO_LABEL
        if settings.regression:
            return None if _is_number(label) else NO_NUMBER
        return NO_CLASS if known is not None and label not in known else None

    return read_examples(settings, name, _wanted, fault)


def classes_of(train: Examples) -> list[str]:
    """The labels that stand in the training part, in the order that the data give them.

    Where they give none it is that of numbers by size, else of letters. Raises UserError if there
    are fewer than two.
    """
    found = set(train.column(-1))
    if len(found) < 2:
        raise UserError(
            f"all rows have the label '{next(iter(found))}'",
            where=train.origin,
            todo="check data.train.label; for labels that are numbers, set data.regression = true",
        )
    if found <= set(train.classes):
        return [label for label in train.classes if label in found]
    return sorted(found, key=int if all(map(_is_whole, found)) else str)


def _wanted(part: LabelPart, key: str) -> Wanted:
    second = {} if part.second is None else {"second": part.second}
    columns = {"text": part.text, **second, "label": part.label}
    return Wanted(columns, key, numbers=frozenset({"label"}))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_whole(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20
