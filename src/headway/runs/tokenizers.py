"""The tokenisers of a run: one for both sides, or one a side."""

from __future__ import annotations

from dataclasses import dataclass

from headway.base.progress import say
from headway.checkpoint.run import RunFolder
from headway.data.pair_stream import PairStream
from headway.data.pairs import Pairs
from headway.settings.tokenizer import PairTokenizerSettings
from headway.tokens.importing import import_tokenizer
from headway.tokens.sides import Sides
from headway.tokens.tokenizer import Tokenizer
from headway.tokens.training import train_tokenizer

JOINT, SOURCE, TARGET = "tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"


@dataclass(frozen=True)
class Tokenizers(Sides):
    """The tokenisers of a run, which were trained or imported for it."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def train(cls, settings: PairTokenizerSettings, pairs: Pairs | PairStream) -> Tokenizers:
        """Learn them from training pairs, or open those that the settings name.

        The pairs are read once if the tokeniser is joint, else once a side. What was done to make
        a file fit is said.
        """
        if settings.file is not None:
            source = opened_tokenizer(settings.file)
            other = settings.target_file
            return cls(source, source if other is None else opened_tokenizer(other))
        if settings.joint:
            joint = train_tokenizer(settings, pairs.texts())
            return cls(joint, joint)
        return cls(
            train_tokenizer(settings, pairs.texts("source")),
            train_tokenizer(settings, pairs.texts("target")),
        )

    @classmethod
    def read(cls, folder: RunFolder) -> Tokenizers:
        """Those that a run was trained with."""

        def one(name: str) -> Tokenizer:
            return Tokenizer.from_json(folder.tokenizer_text(name), where=str(folder.path / name))

        if JOINT in folder.config()["tokenizers"]:
            joint = one(JOINT)
            return cls(joint, joint)
        return cls(one(SOURCE), one(TARGET))

    def files(self) -> dict[str, str]:
        """File name -> content."""
        if self.source is self.target:
            return {JOINT: self.source.to_json()}
        return {SOURCE: self.source.to_json(), TARGET: self.target.to_json()}


def opened_tokenizer(path: str) -> Tokenizer:
    """The tokeniser of a file, made to fit; what was done is said."""
    found = import_tokenizer(path)
    for note in found.notes:
        say(f"{path}: {note}")
    return found.tokenizer
