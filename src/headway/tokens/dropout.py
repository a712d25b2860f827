"""BPE dropout (Provilkov, Emelianenko and Voita 2020): words cut in other ways each epoch."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Words:
    """Texts cut into words, ready to be encoded again and again: 4 bytes a word.

    `places` says which of the distinct words stands where, `n_words` how many each text has; the
    bytes of the distinct words, as ids, are end to end in `letters`, `sizes` of them in each.
    """

    places: Ids
    n_words: Ids
    letters: Ids
    sizes: Ids

    def __len__(self) -> int:
        """The number of texts."""
        return len(self.n_words)

    def some(self, texts: Sizes) -> Words:
        """Only these texts, by their number."""
        ends = np.cumsum(self.n_words, dtype=np.int64)
        kept = [self.places[ends[text] - self.n_words[text] : ends[text]] for text in texts]
        places = np.concatenate(kept) if kept else self.places[:0]
        return Words(places, self.n_words[texts], self.letters, self.sizes)


class BpeDropout:
    """Encodes texts with each possible merge left out with the probability `rate`.

    As in algorithm 1 of the paper: at each step every merge that could be made in a word is left
    out with that probability, the first that is left by rank is made, and the word is finished
    when none is left. The tokenizers library draws from a generator that cannot be seeded, and
    gives what it left out further chances when it comes upon a merge that is no longer possible,
    so that it cuts longer words less than the paper does. Here merges are made for all words of
    one length at a time.
    """

    def __init__(
        self, tokenizer: Tokenizer, rate: float, *, where: str = "tokenizer.dropout"
    ) -> None:
        """UserError naming `where` if `tokenizer` is not plain byte-level BPE."""
        text = tokenizer.to_json()
        file = json.loads(text)
        _check(file, where)
        self.rate, self.eos = rate, tokenizer.eos
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

    def cut(self, texts: Iterable[str]) -> Words:
        """Cut texts into words, which is the slow part and the same each epoch.

        UserError if a text is not valid Unicode.
        """
        normalizer, rule = self._rules.normalizer, self._rules.pre_tokenizer
        known: dict[str, int] = {}
        places, n_words = array("i"), array("i")
        for text in only_unicode(texts):
            clean = normalizer.normalize_str(text) if normalizer else text
            words = rule.pre_tokenize_str(clean)
            places.extend([known.setdefault(word, len(known)) for word, _ in words])
            n_words.append(len(words))
        letters = array("i", (self._letters[letter] for word in known for letter in word))
        sizes = array("i", map(len, known))
        return Words(*(np.array(part, np.int32) for part in (places, n_words, letters, sizes)))

    def encode(
        self, words: Words, *, seed: Sequence[int], longest: int | None = None
    ) -> tuple[Ids, Sizes]:
        """The ids of all texts end to end, each text closed by `eos`, and how many each has.

        A pure function of the texts, in their order, and of `seed`: numbers from 0, such as
        (seed of the run, epoch, side). A text that would have more than `longest` ids is encoded
        without dropout.
        """
        random = np.random.Generator(np.random.PCG64(list(seed)))
        ids, lengths = self._encode(words, self.rate, random)
        long = np.flatnonzero(lengths > longest) if longest is not None else lengths[:0]
        if not len(long):
            return ids, lengths
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        plain, sizes = self._encode(words.some(long), 0.0, random)
        for text, row in zip(long, np.split(plain, np.cumsum(sizes)[:-1]), strict=True):
            rows[text] = row
        lengths[long] = sizes
        return np.concatenate(rows), lengths

    def _encode(self, words: Words, rate: float, random: np.random.Generator) -> tuple[Ids, Sizes]:
        found = list(self._encode_words(words, rate, random))
        sizes = np.ones(len(words.places), np.int64)
        for which, ids in found:
            sizes[which] = ids.shape[1]
        text_of = np.repeat(np.arange(len(words)), words.n_words)
        lengths = np.bincount(text_of, sizes, len(words)).astype(np.int64) + 1
        flat = np.full(int(lengths.sum()), self.eos, np.int32)
        starts = np.cumsum(sizes) - sizes + text_of  # one end symbol stands after each text before
        for which, ids in found:
            flat[starts[which][:, None] + np.arange(ids.shape[1])] = ids
        return flat, lengths

    def _encode_words(
        self, words: Words, rate: float, random: np.random.Generator
    ) -> Iterator[tuple[Sizes, Ids]]:
        """Yields places of words and the ids of the words there, those of one size together."""
        starts = np.cumsum(words.sizes, dtype=np.int64) - words.sizes
        sizes = words.sizes[words.places]
        order = np.argsort(sizes, kind="stable")
        borders = np.flatnonzero(np.diff(sizes[order])) + 1
        for places in np.split(order, borders):
            if len(places):
                word = words.places[places]
                ids = words.letters[starts[word][:, None] + np.arange(words.sizes[word[0]])]
                for rows, merged in self._merge(ids, rate, random):
                    yield places[rows], merged

    def _merge(
        self, ids: Ids, rate: float, random: np.random.Generator
    ) -> Iterator[tuple[Sizes, Ids]]:
        """Merge in words of one length, `ids` (words, length), until none of them goes on.

        In each step every word that goes on becomes one shorter, so the rest stays a rectangle.
        """
        rows = np.arange(len(ids))
        ranks = self._ranks(ids[:, :-1], ids[:, 1:])  # (words, length - 1)
        while ids.shape[1] > 1:
            left_out = random.random(ranks.shape, np.float32) < rate
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
