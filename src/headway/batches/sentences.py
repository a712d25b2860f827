"""Rows of one or two texts from documents whose sentences are known: what BERT is pretrained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.batches.order import Rows, generator
from headway.batches.pairs import EncodedSide

Ids = npt.NDArray[np.int32]
UNASKED, FOLLOWS, ANOTHER = -1, 0, 1  # what the second text is; numbered as BERT's head has them
SHORTER = 0.1  # of the rows, so that short texts are not strange to the model
_PASS, _PLAN = 1, 2  # what random numbers are for
_READ = 2**20  # ids after which pages are given back


def marked(sentences: Sequence[Sequence[int]]) -> list[int]:
    """The sentences of a document end to end, each one's first id as its complement (below 0).

    So a row of ids says itself where its sentences begin, wherever it is kept.
    """
    return [id for ids in sentences if ids for id in (~ids[0], *ids[1:])]


class Texts(NamedTuple):
    """The ids of a row, and what its second text is; without one that is empty."""

    first: Ids
    second: Ids
    relation: int


class _Plan(NamedTuple):
    """N rows of a source: where each begins among the ids, and where sentences begin within it."""

    starts: Rows  # (N,)
    lengths: Rows  # (N,)
    documents: Rows  # (N,)
    borders: Ids  # of all rows end to end, counted from the beginning of the row
    first_border: Rows  # (N + 1,)


class _Pass(NamedTuple):
    """One pass: the rows in their order; where each is split; from which its second text is."""

    order: Rows
    splits: Rows
    partners: Rows


class SentenceRows:
    """The rows of one source: whole sentences of a document, as many as fit into `room` ids.

    With `pairs` a row is split at the beginning of one of its sentences, another one each pass, and
    half the rows change their second text for one of another document that is about as long: so
    each token is read once a pass, and the lengths tell nothing. A row of one sentence is one text,
    and so are all rows of a single document. Devlin et al. 2019, appendix A.2. Beside the ids a row
    takes some 70 bytes of memory and a sentence 4.
    """

    def __init__(
        self, documents: EncodedSide, room: int, *, seed: Sequence[int], pairs: bool
    ) -> None:
        self.documents, self.room, self.seed = documents, room, seed
        self._plan = _planned(documents, room, self._random(0, _PLAN), SHORTER if pairs else 0.0)
        self.n_rows = len(self._plan.starts)
        self.pairs = pairs and len(np.unique(self._plan.documents)) > 1
        self._pass = lru_cache(maxsize=2)(self._drawn)

    def row(self, place: int) -> Texts:
        """Row `place`, counted over all passes."""
        number, index = divmod(place, self.n_rows)
        order, splits, partners = self._pass(number)
        row = order[index]
        partner, split = partners[row], int(splits[row])
        first = self._read(row, 0, split)
        end = min(int(self._plan.lengths[partner]), int(splits[partner]) + self.room - split)
        second = self._read(partner, int(splits[partner]), end)
        relation = FOLLOWS if partner == row else ANOTHER
        return Texts(first, second, relation if len(second) else UNASKED)

    def lengths(self, places: Rows) -> Rows:
        """How many ids those rows have."""
        numbers, indices = np.divmod(places, self.n_rows)
        found = np.zeros(len(places), np.int64)
        for number in np.unique(numbers).tolist():
            order, splits, partners = self._pass(number)
            rows = order[indices[numbers == number]]
            seconds = (self._plan.lengths - splits)[partners[rows]]
            found[numbers == number] = np.minimum(splits[rows] + seconds, self.room)
        return found

    def release(self) -> None:
        """Let the system take back the pages that were read."""
        self.documents.release()

    def _read(self, row: int, start: int, end: int) -> Ids:
        begin = self._plan.starts[row]
        ids = self.documents.ids[begin + start : begin + end]
        return np.where(ids < 0, ~ids, ids)

    def _random(self, number: int, purpose: int) -> np.random.Generator:
        return generator(*self.seed, number, purpose)

    def _drawn(self, number: int) -> _Pass:
        random, plan = self._random(number, _PASS), self._plan
        order = random.permutation(self.n_rows)
        partners, splits = np.arange(self.n_rows), plan.lengths.copy()
        counts = np.diff(plan.first_border) * self.pairs
        two = np.flatnonzero(counts)
        chosen = plan.first_border[two] + (random.random(len(two)) * counts[two]).astype(np.int64)
        splits[two] = plan.borders[chosen]
        changing = random.permutation(two)[: len(two) // 2]
        seconds = (plan.lengths - splits)[changing]
        changing = changing[np.argsort(seconds, kind="stable")]
        one, other = changing[: len(changing) // 2 * 2].reshape(-1, 2).T  # of like length
        apart = plan.documents[one] != plan.documents[other]
        one, other = one[apart], other[apart]
        partners[one], partners[other] = other, one
        return _Pass(order, splits, partners)


def _planned(
    documents: EncodedSide, room: int, random: np.random.Generator, shorter: float
) -> _Plan:
    starts, lengths, numbers, borders, counts = [], [], [], [np.zeros(0, np.int32)], [0]
    read = 0
    for number, (first, last) in enumerate(
        zip(documents.starts[:-1].tolist(), documents.starts[1:].tolist(), strict=True)
    ):
        heads = np.flatnonzero(documents.ids[first:last] < 0)
        for start, end in _cut(heads, last - first, room, random, shorter):
            inside = heads[np.searchsorted(heads, start + 1) : np.searchsorted(heads, end)] - start
            starts.append(first + start)
            lengths.append(end - start)
            numbers.append(number)
            borders.append(inside.astype(np.int32))
            counts.append(len(inside))
        read += last - first
        if read > _READ:
            documents.release()
            read = 0
    return _Plan(
        np.array(starts, np.int64),
        np.array(lengths, np.int64),
        np.array(numbers, np.int64),
        np.concatenate(borders),
        np.cumsum(counts),
    )


def _cut(
    heads: Rows, n: int, room: int, random: np.random.Generator, shorter: float
) -> Iterator[tuple[int, int]]:
    """Cut a document of `n` ids at the beginnings of sentences; within one that is very long."""
    start, ends = 0, np.append(heads, n)
    while start < n:
        wanted = room
        if random.random() < shorter:
            wanted = int(random.integers(2, room + 1))
        after = int(np.searchsorted(ends, start + wanted, side="right"))
        end = int(ends[after - 1])
        if end < n and end - start <= wanted // 2:  # the sentence after would leave it too short
            end = min(int(ends[after]), start + room)
        yield start, end
        start = end
