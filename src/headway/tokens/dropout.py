"""BPE dropout (Provilkov, Emelianenko and Voita 2020): words cut in other ways each epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers

from headway.base.errors import UserError
from headway.tokens.lossless import is_byte_level
from headway.tokens.specials import File
from headway.tokens.tokenizer import Tokenizer, only_unicode

Ids = npt.NDArray[np.int32]
Sizes = npt.NDArray[np.int64]
Number = TypeVar("Number", np.int32, np.int64)


class BpeDropout:
    """Encodes texts with each possible merge left out with the probability `rate`.

    As in algorithm 1 of the paper: at each step every merge that could be made in a word is left
    out with that probability, the first that is left by rank is made, and the word is finished
    when none is left. The tokenizers library does the same, but draws from a generator that cannot
    be seeded; so the merges are made here, for all words of one length at a time.
    """

    def __init__(
        self, tokenizer: Tokenizer, rate: float, *, where: str = "tokenizer.dropout"
    ) -> None:
        """UserError naming `where` if `tokenizer` is not plain byte-level BPE."""
        text = tokenizer.to_json()
        file = json.loads(text)
        _check(file, where)
        self.tokenizer, self.rate = tokenizer, rate
        self._rules = Backend.from_str(text)
        vocab, merges = file["model"]["vocab"], file["model"]["merges"]
        self._letters = {token: id for token, id in vocab.items() if len(token) == 1}
        self._size = len(tokenizer)
        self._none = len(merges)  # the rank of what cannot be merged
        pairs = np.array([[vocab[one], vocab[other]] for one, other in merges], np.int64)
        pairs = pairs.reshape(-1, 2)
        keys = pairs[:, 0] * self._size + pairs[:, 1]
        self._rank = np.argsort(keys)
        self._keys = np.append(keys[self._rank], np.iinfo(np.int64).max)
        self._rank = np.append(self._rank, self._none)
        self._merged = np.array([vocab[one + other] for one, other in merges], np.int32)

    def encode(
        self, texts: Sequence[str], *, seed: Sequence[int], longest: int | None = None
    ) -> tuple[Ids, Sizes]:
        """The ids of all texts end to end, each text closed by `eos`, and how many each has.

        A pure function of the texts, in their order, and of `seed`: numbers from 0, such as
        (seed of the run, epoch, side, block). A text that would have more than `longest` ids is
        encoded without dropout. UserError if a text is not valid Unicode.
        """
        index, n_words, words = self._cut(texts)
        random = np.random.Generator(np.random.PCG64(list(seed)))
        found = list(self._encode_words(words, index, random))
        sizes = np.ones(len(index), np.int64)
        for which, ids in found:
            sizes[which] = ids.shape[1]
        text_of = np.repeat(np.arange(len(n_words)), n_words)
        lengths = np.bincount(text_of, sizes, len(n_words)).astype(np.int64) + 1
        ends = np.cumsum(lengths)
        flat = np.full(int(lengths.sum()), self.tokenizer.eos, np.int32)
        starts = np.cumsum(sizes) - sizes + text_of  # one end symbol stands after each text before
        for which, ids in found:
            flat[starts[which][:, None] + np.arange(ids.shape[1])] = ids
        if longest is None or int(lengths.max(initial=0)) <= longest:
            return flat, lengths
        return self._without_long(texts, np.split(flat, ends[:-1]), longest)

    def _without_long(
        self, texts: Sequence[str], rows: list[Ids], longest: int
    ) -> tuple[Ids, Sizes]:
        long = [number for number, row in enumerate(rows) if len(row) > longest]
        plain = self.tokenizer.encode([texts[number] for number in long])
        for number, ids in zip(long, plain, strict=True):
            rows[number] = np.array(ids, np.int32)
        return np.concatenate(rows), np.array([len(row) for row in rows], np.int64)

    def _cut(self, texts: Sequence[str]) -> tuple[Sizes, Sizes, list[str]]:
        """Which word stands where, how many words each text has, and the distinct words."""
        normalizer, cut = self._rules.normalizer, self._rules.pre_tokenizer
        known: dict[str, int] = {}
        index: list[int] = []
        n_words = []
        for text in only_unicode(texts):
            clean = normalizer.normalize_str(text) if normalizer else text
            words = cut.pre_tokenize_str(clean)
            index += [known.setdefault(word, len(known)) for word, _ in words]
            n_words.append(len(words))
        return np.array(index, np.int64), np.array(n_words, np.int64), list(known)

    def _encode_words(
        self, words: list[str], index: Sizes, random: np.random.Generator
    ) -> Iterator[tuple[Sizes, Ids]]:
        """Yields places in `index` and the ids of the words there, those of one size together."""
        letters = np.array([self._letters[letter] for word in words for letter in word], np.int32)
        sizes = np.array([len(word) for word in words], np.int64)
        starts = np.cumsum(sizes) - sizes
        order = np.argsort(sizes[index], kind="stable")
        borders = np.flatnonzero(np.diff(sizes[index][order])) + 1
        for places in np.split(order, borders):
            if len(places):
                word = index[places]
                ids = letters[starts[word][:, None] + np.arange(sizes[word[0]])]
                for rows, merged in self._merge(ids, random):
                    yield places[rows], merged

    def _merge(self, ids: Ids, random: np.random.Generator) -> Iterator[tuple[Sizes, Ids]]:
        """Merge in words of one length, `ids` (words, length), until none of them goes on.

        In each step every word that goes on becomes one shorter, so the rest stays a rectangle.
        """
        rows = np.arange(len(ids))
        ranks = self._ranks(ids[:, :-1], ids[:, 1:])  # (words, length - 1)
        while ids.shape[1] > 1:
            left_out = random.random(ranks.shape, np.float32) < self.rate
            possible = np.where(left_out, self._none, ranks)
            best = possible.argmin(axis=1)
            rank = possible[np.arange(len(rows)), best]
            goes_on = rank < self._none
            if not goes_on.all():
                yield rows[~goes_on], ids[~goes_on]
                rows, ids, ranks = rows[goes_on], ids[goes_on], ranks[goes_on]
                best, rank = best[goes_on], rank[goes_on]
            if not len(rows):
                return
            ids = _without(ids, best + 1)
            ids[np.arange(len(rows)), best] = self._merged[rank]
            ranks = _without(ranks, best)
            for beside in (best - 1, best):
                here = np.flatnonzero((beside >= 0) & (beside < ranks.shape[1]))
                at = beside[here]
                ranks[here, at] = self._ranks(ids[here, at], ids[here, at + 1])
        yield rows, ids

    def _ranks(self, left: Ids, right: Ids) -> Sizes:
        keys = left.astype(np.int64) * self._size + right
        places = np.searchsorted(self._keys, keys)
        return np.where(self._keys[places] == keys, self._rank[places], self._none)


def _without(table: npt.NDArray[Number], places: Sizes) -> npt.NDArray[Number]:
    """`table` with one entry taken out of each row."""
    columns = np.arange(table.shape[1] - 1)
    kept: npt.NDArray[Number] = np.take_along_axis(
        table, columns + (columns >= places[:, None]), axis=1
    )
    return kept


def _check(file: File, where: str) -> None:
    model = file["model"]
    marks = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    added = any(not token["special"] for token in file["added_tokens"])
    all_bytes = set(pre_tokenizers.ByteLevel.alphabet()) <= model["vocab"].keys()
    if model["type"] != "BPE" or not is_byte_level(file) or marks or added or not all_bytes:
        raise UserError(
            "only byte-level BPE can leave out merges, and this tokeniser is of another kind",
            where=where,
            todo="set it to 0, or take a tokeniser of the kind 'bpe'",
        )
