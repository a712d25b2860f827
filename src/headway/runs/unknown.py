"""Tokens of documents that the tokeniser does not know: counted, and told with what they spoil."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headway.tokens.text import TextTokenizer

_LOOKED_AT = 50  # documents with unknown tokens in which these are looked up
_LETTERS = 2000  # of each
_SHOWN = 5


@dataclass
class UnknownCounts:
    """The unknown tokens of a source, counted block by block."""

    tokenizer: TextTokenizer
    words: int = 0  # tokens that no document is framed with
    unknown: int = 0
    puzzling: list[str] = field(default_factory=list)

    def keep(
        self, ids: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64], texts: Sequence[str]
    ) -> None:
        """The ids of whole documents end to end; one below 0 is the complement of a token's."""
        lost = self.tokenizer.unknown
        if lost is None:
            return
        ids = np.where(ids < 0, ~ids, ids)
        places = np.flatnonzero(ids == lost)
        framing = [id for id in self.tokenizer.special if id != lost]
        self.words += len(ids) - int(np.isin(ids, framing).sum())
        self.unknown += len(places)
        if len(places) and len(self.puzzling) < _LOOKED_AT:
            rows = np.unique(np.searchsorted(np.cumsum(lengths), places, side="right"))
            some = rows[: _LOOKED_AT - len(self.puzzling)]
            self.puzzling += [texts[row][:_LETTERS] for row in some]

    def found(self) -> Unknown:
        """The whole count."""
        examples = Counter(text for _, row in self.tokenizer.cut(self.puzzling) for text in row)
        some = tuple(text for text, _ in examples.most_common(_SHOWN))
        return Unknown(self.unknown / max(1, self.words), some)


@dataclass(frozen=True)
class Unknown:
    """The share of unknown tokens, from 0 to 1, and what some of them were in the text."""

    share: float = 0.0
    examples: tuple[str, ...] = ()

    def told(self, source: str, spoils: str) -> str:
        """A sentence with what they do to the figures; nothing where all is known."""
        if not self.share:
            return ""
        share = f"{self.share:.1%}" if self.share >= 0.0005 else "under 0.1%"
        such = f", such as {', '.join(map(repr, self.examples))}" if self.examples else ""
        return f"{source}: {share} of the tokens are unknown{such}: {spoils}"
