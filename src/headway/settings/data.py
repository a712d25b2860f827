"""Where text comes from: two parallel files or a built-in corpus, for each of the three parts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, PositiveInt, Tag, field_validator, model_validator

from headway.settings.base import Settings


class PairFiles(Settings):
    """Two parallel files, a sentence a line, plain or .gz; relative to where the command runs."""

    source: str
    target: str
    lines: PositiveInt | None = None

    @field_validator("source", "target")
    @classmethod
    def _is_set(cls, path: str) -> str:
        if not path:
            raise ValueError("names no file; give it as --set data.train.source=FILE and so on")
        return path


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
    if isinstance(value, BuiltinPairs) or (isinstance(value, dict) and "corpus" in value):
        return "builtin"
    return "files"


Part = Annotated[
    Annotated[PairFiles, Tag("files")] | Annotated[BuiltinPairs, Tag("builtin")],
    Discriminator(_which),
]


class DataSettings(Settings):
    """Pairs of sentences to learn from (`train`), to choose by (`valid`) and to report (`test`).

    The languages are names such as "fr" and "en"; the built-in corpus is made in them. A training
    pair with a side longer than `max_tokens` is left out and counted.
    """

    source_language: str
    target_language: str
    train: Part
    valid: Part | None = None
    test: Part | None = None
    max_tokens: PositiveInt = 250

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        parts = (self.train, self.valid, self.test)
        if self.source_language == self.target_language and any(
            isinstance(part, BuiltinPairs) for part in parts
        ):
            raise ValueError("the built-in corpus needs two different languages")
        return self


class TokenizerSettings(Settings):
    """How text becomes ids. One tokeniser for both sides (`joint`) or one a side.

    `size` bounds the vocabulary, special tokens included; `min_count` is the cut-off below which
    a character or word is unknown.

    `file` is a tokeniser that exists already, for both sides, or for the source if `target_file`
    is the target's; then `kind`, `size` and `min_count` say nothing. `dropout` is the probability
    with which a merge of BPE is left out while training (Provilkov et al. 2020).
    """

    kind: Literal["character", "word", "bpe", "wordpiece"] = "bpe"
    size: PositiveInt = 8000
    min_count: PositiveInt = 1
    joint: bool = True
    lowercase: bool = False
    strip_accents: bool = False
    file: str | None = None
    target_file: str | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.file is None:
            if self.target_file is not None:
                raise ValueError("target_file goes with file, which is then the source's: set it")
            if self.dropout and self.kind != "bpe":
                raise ValueError(f"dropout is for kind = 'bpe', not for '{self.kind}'")
            return self
        if self.lowercase or self.strip_accents:
            raise ValueError(
                "the file says itself what becomes of case and accents: "
                "leave out lowercase and strip_accents"
            )
        if self.joint == (self.target_file is not None):
            raise ValueError(
                "one file is for both sides (joint = true), two are for one side each "
                "(file, target_file and joint = false)"
            )
        return self
