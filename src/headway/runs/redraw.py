"""Training pairs whose words are cut in other ways each epoch (BPE dropout)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from headway.batches.pairs import EncodedPairs, EncodedSide
from headway.runs.encoding import Encoding
from headway.runs.tokenizers import Tokenizers
from headway.tokens.dropout import BpeDropout


class Redraw:
    """The pairs of an epoch: a pure function of (seed, epoch), in the rows of the plain ones.

    Holds 4 bytes a word in memory, and the ids of two epochs; while it draws a side, about eight
    times the ids of that. Raises UserError if a tokeniser is not byte-level BPE.
    """

    def __init__(
        self, encoding: Encoding, tokenizers: Tokenizers, *, rate: float, seed: int
    ) -> None:
        self.seed, self.limit = seed, encoding.limit
        self.rules = [BpeDropout(each, rate) for each in (tokenizers.source, tokenizers.target)]
        sides = (encoding.kept_texts("source"), encoding.kept_texts("target"))
        self.words = [rule.cut(texts) for rule, texts in zip(self.rules, sides, strict=True)]
        self.pairs = lru_cache(maxsize=2)(self._draw)  # a step may end one epoch and begin another

    def _draw(self, epoch: int) -> EncodedPairs:
        sides = []
        for place, (rule, words) in enumerate(zip(self.rules, self.words, strict=True)):
            seed = (self.seed, epoch, place)
            ids, lengths = rule.encode(words, seed=seed, longest=self.limit)
            sides.append(EncodedSide(ids, np.concatenate(([0], np.cumsum(lengths)))))
        return EncodedPairs(*sides)
