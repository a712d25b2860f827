"""Documents to learn a language from: files, tables, hub data sets, built-in corpora, mixed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    PositiveFloat,
    Tag,
    model_validator,
)

from headway.settings.base import Settings
from headway.settings.data import Column, Errors, HubReader, Reader, TableReader

Builtin = Literal["builtin:stdlib", "builtin:pydoc"]


class _Source(Reader):
    """What every source of documents has; `lines` counts documents, `weight` is its share's."""

    weight: PositiveFloat | None = None


class TextFiles(_Source):
    """Files of text, plain or .gz; `files` may hold * and **.

    A document is a file, a line, or what stands between blank lines.
    """

    files: Annotated[str, Field(min_length=1)]
    document: Literal["file", "line", "block"] = "file"
    errors: Errors = "strict"


class TextTable(_Source, TableReader):
    """A table with a document a row, in the column `text`."""

    text: Column = "text"


class HubTexts(_Source, HubReader):
    """Documents of a hub data set, in the column `text`."""

    text: str = "text"


class BuiltinTexts(_Source):
    """Text that is on every machine: `stdlib`, the Python sources of the running interpreter
    without its tests, a file a document; `pydoc`, its documentation topics in English.
    """

    corpus: Builtin


def _which(value: Any) -> str:
    kinds: dict[str, tuple[type[Settings], str]] = {
        "corpus": (BuiltinTexts, "builtin"),
        "file": (TextTable, "table"),
        "hub": (HubTexts, "dataset"),
    }
    for key, (kind, tag) in kinds.items():
        if isinstance(value, kind) or (isinstance(value, dict) and key in value):
            return tag
    return "files"


DocumentSource = Annotated[
    Annotated[TextFiles, Tag("files")]
    | Annotated[TextTable, Tag("table")]
    | Annotated[HubTexts, Tag("dataset")]
    | Annotated[BuiltinTexts, Tag("builtin")],
    Discriminator(_which),
]


class DocumentSettings(Settings):
    """Named sources of documents to learn from (`train`), to choose by and to report on.

    An epoch has as many rows of `length` tokens as all sources together; each source has a share
    of them: by its `weight`, or in proportion to its tokens to the power 1 / `temperature` (1: as
    they are; higher: more of the small ones). `length` is the model's longest if not set.
    `duplicates` says what becomes of documents that were there before: "exact" drops the same text,
    "near" also those with at least 80 % of their runs of five words in common (Broder, 1997).
    `held_out` is the share of each training source's documents that becomes valid, and the share
    that becomes test, if they are not there; a hash of the text chooses.
    """

    kind: Literal["documents"]
    train: Annotated[dict[str, DocumentSource], Field(min_length=1)]
    valid: dict[str, DocumentSource] = {}
    test: dict[str, DocumentSource] = {}
    length: Annotated[int, Field(ge=8)] | None = None
    temperature: PositiveFloat = 1.0
    duplicates: Literal["keep", "exact", "near"] = "exact"
    held_out: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    @model_validator(mode="after")
    def _shares(self) -> Self:
        weighted = [name for name, part in self.train.items() if part.weight is not None]
        if weighted and len(weighted) < len(self.train):
            raise ValueError("either all sources of data.train have a weight or none")
        if weighted and self.temperature != 1.0:
            raise ValueError("the shares follow from weights or from temperature, not from both")
        return self

    @model_validator(mode="after")
    def _held_out_is_missing(self) -> Self:
        if self.held_out and self.valid and self.test:
            raise ValueError(
                f"held_out = {self.held_out} makes the parts that a recipe does not have, and this "
                "one has both valid and test: set held_out = 0"
            )
        return self


class MaskingSettings(Settings):
    """What a masked language model has to guess (Devlin et al., 2019, section 3.1).

    Of the tokens, `rate` are to be guessed: 80 % of them masked, 10 % replaced by another, 10 %
    left; `whole_words` chooses words rather than tokens. With `next_sentence` a row is two texts,
    and whether the second followed the first is to be told.
    """

    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    whole_words: bool = False
    next_sentence: bool = True
