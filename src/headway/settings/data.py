"""Where text comes from: files, a hub data set, a built-in corpus, for each of the three parts."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    Discriminator,
    Field,
    PlainValidator,
    PositiveInt,
    Tag,
    field_validator,
    model_validator,
)

from headway.settings.base import Settings

Format: TypeAlias = Literal["tsv", "csv", "jsonl", "parquet"]
Errors: TypeAlias = Literal["strict", "replace", "skip"]
Bad: TypeAlias = Literal["few", "drop", "refuse"]


def _column(value: Any) -> str | int:
    named = isinstance(value, str) and value != ""
    counted = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not (named or counted):
        raise ValueError(
            f"a column is told by its name, or by its number from 0 on, not by {value!r}"
        )
    return value  # type: ignore[no-any-return]


Column: TypeAlias = Annotated[str | int, PlainValidator(_column)]


class Reader(Settings):
    """What every reader has: how much of it, and what becomes of a row that cannot be used.

    `bad`: "few" leaves such rows out and refuses the data if they are more than 5 %, "drop" leaves
    out any number, "refuse" accepts none.
    """

    lines: PositiveInt | None = None
    bad: Bad = "few"


class PairFiles(Reader):
    """Two parallel files, a sentence a line, plain or .gz; relative to where the command runs.

    `errors` is for bytes that are not UTF-8: refuse the file, put U+FFFD, or leave out the pair.
    """

    source: str
    target: str
    errors: Errors = "strict"

    @field_validator("source", "target")
    @classmethod
    def _is_set(cls, path: str) -> str:
        if not path:
            raise ValueError("names no file; give it as --set data.train.source=FILE and so on")
        return path


class TableReader(Reader):
    """One file with a row a line, plain or .gz; Parquet as it is.

    Columns are names as the first line has them (JSONL, Parquet: keys, "translation.fr" is a key
    within another), or numbers from 0 on for a file without that line. `format` follows the file's
    suffix, `separator` and `quoting` the format: "none" takes quotes as text (TSV), "csv" has
    fields in double quotes that hold anything (RFC 4180).
    """

    file: str
    format: Format | None = None
    separator: str | None = None
    quoting: Literal["none", "csv"] | None = None
    errors: Errors = "strict"

    @field_validator("file")
    @classmethod
    def _is_set(cls, path: str) -> str:
        if not path:
            raise ValueError("names no file; give it as --set data.train.file=FILE")
        return path

    @field_validator("separator")
    @classmethod
    def _one_character(cls, separator: str | None) -> str | None:
        if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
            raise ValueError("one character parts the columns, and neither a quote nor a line end")
        return separator


class HubReader(Reader):
    """A data set of the Hugging Face hub, or a folder in its layout; needs the extra `hub`.

    `split` is that of the part's own name if not set ("validation" for valid). With `streaming`
    nothing is stored.
    """

    hub: str
    config: str | None = None
    split: str | None = None
    streaming: bool = False


class TableFile(TableReader):
    """A table with a pair a row, in the columns `source` and `target`."""

    source: Column
    target: Column

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        if isinstance(self.source, str) is not isinstance(self.target, str):
            raise ValueError("source and target must both be names of columns, or both numbers")
        if self.source == self.target:
            raise ValueError("source and target are the same column")
        return self


class HubPairs(HubReader):
    """Pairs of a hub data set; `source` and `target` are columns, "translation.fr" a key in one."""

    source: str
    target: str

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        if not (self.hub and self.source and self.target):
            raise ValueError("hub, source and target need a name")
        if self.source == self.target:
            raise ValueError("source and target are the same column")
        return self


class BuiltinPairs(Settings):
    """`lines` pairs of a corpus that is made on the spot; the parts of it never overlap.

    `kinds` are the kinds of expression in it ("country", "spelled", …); all if not set.
    """

    corpus: Literal["builtin:cldr"]
    lines: PositiveInt
    max_words: PositiveInt = 60
    kinds: list[str] | None = None
    seed: int = 0


def _which(value: Any) -> str:
    kinds: dict[str, tuple[type[Settings], str]] = {
        "corpus": (BuiltinPairs, "builtin"),
        "file": (TableFile, "table"),
        "hub": (HubPairs, "dataset"),
    }
    for key, (kind, tag) in kinds.items():
        if isinstance(value, kind) or (isinstance(value, dict) and key in value):
            return tag
    return "files"


Part = Annotated[
    Annotated[PairFiles, Tag("files")]
    | Annotated[TableFile, Tag("table")]
    | Annotated[HubPairs, Tag("dataset")]
    | Annotated[BuiltinPairs, Tag("builtin")],
    Discriminator(_which),
]


_LANGUAGE = re.compile(r"(?<!\$)\{(source_language|target_language)\}")  # not ${VARIABLE}


class DataSettings(Settings):
    """Pairs of sentences to learn from (`train`), to choose by (`valid`) and to report (`test`).

    The languages are names such as "fr" and "en"; the built-in corpus is made in them, and in the
    paths and columns of a part `{source_language}` and `{target_language}` stand for them, so that
    the two names alone turn the direction. A training pair with a side longer than `max_tokens` is
    left out and counted. `duplicates` says what becomes of a training pair that was there before,
    both sides alike; they are counted anyway. `held_out` is the share of the training part's
    distinct sources that becomes valid, and the share that becomes test, if they are not there; a
    hash of the source chooses, so that no source is in two parts.
    """

    kind: Literal["pairs"] = "pairs"
    source_language: str
    target_language: str
    train: Part
    valid: Part | None = None
    test: Part | None = None
    max_tokens: PositiveInt = 250
    duplicates: Literal["keep", "drop"] = "keep"
    held_out: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _in_these_languages(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values

        def name(found: re.Match[str]) -> str:
            language = values.get(found[1])
            return language if isinstance(language, str) else found[0]

        def written(value: Any) -> Any:
            return _LANGUAGE.sub(name, value) if isinstance(value, str) else value

        return {
            key: {each: written(value) for each, value in part.items()}
            if isinstance(part, dict)
            else part
            for key, part in values.items()
        }

    @model_validator(mode="after")
    def _held_out_is_missing(self) -> Self:
        if self.held_out and self.valid is not None and self.test is not None:
            raise ValueError(
                f"held_out = {self.held_out} makes the parts that a recipe does not have, and this "
                "one has both valid and test: set held_out = 0"
            )
        return self

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        parts = (self.train, self.valid, self.test)
        if self.source_language == self.target_language and any(
            isinstance(part, BuiltinPairs) for part in parts
        ):
            raise ValueError("the built-in corpus needs two different languages")
        return self
