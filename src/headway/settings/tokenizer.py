"""How text becomes ids."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from headway.settings.base import Settings


class TokenizerSettings(Settings):
    """How text becomes ids.

    `size` bounds the vocabulary, special tokens included; `min_count` is the cut-off below which
    a character or word is unknown. BPE cuts text into words by a `rule` first: "marks" keeps
    combining marks beside their letters, "gpt2" is the one that other tools know. `file` is a
    tokeniser that exists already; then `kind`, `size`, `min_count` and `rule` say nothing.
    """

    kind: Literal["character", "word", "bpe", "wordpiece"] = "bpe"
    size: Annotated[int, Field(gt=0, le=2**24)] = 8000
    min_count: PositiveInt = 1
    rule: Literal["marks", "gpt2"] = "marks"
    lowercase: bool = False
    strip_accents: bool = False
    file: str | None = None

    @model_validator(mode="after")
    def _rule_of_bpe(self) -> Self:
        if self.rule != "marks" and self.kind != "bpe":
            raise ValueError(f"rule is for kind = 'bpe', not for '{self.kind}'")
        return self

    @model_validator(mode="after")
    def _file_says_itself(self) -> Self:
        if self.file is not None and (self.lowercase or self.strip_accents):
            raise ValueError(
                "the file says itself what becomes of case and accents: "
                "leave out lowercase and strip_accents"
            )
        return self


class PairTokenizerSettings(TokenizerSettings):
    """One tokeniser for both sides (`joint`) or one a side.

    `file` is for both sides, or for the source if `target_file` is the target's. `dropout` is the
    probability with which a merge of BPE is left out while training (Provilkov et al. 2020).
    """

    joint: bool = True
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
        if self.joint == (self.target_file is not None):
            raise ValueError(
                "one file is for both sides (joint = true), two are for one side each "
                "(file, target_file and joint = false)"
            )
        return self
