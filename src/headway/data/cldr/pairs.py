"""Pairs of texts drawn from an inventory: single expressions and lists, of every length."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, Literal, TypeAlias, TypeVar

from babel import Locale

from headway.base.errors import UserError, unknown
from headway.data.cldr.inventory import KINDS, Expression, inventory
from headway.data.cldr.locales import count_words, parse_locale

_T = TypeVar("_T")
Split: TypeAlias = Literal["train", "valid", "test"]

SPLITS: Final[tuple[Split, ...]] = ("train", "valid", "test")
TENTHS: Final[dict[int, Split]] = {0: "test", 1: "valid"}  # of all texts; the rest is training
BANDS: Final = ((2, 8), (9, 16), (17, 32), (33, 60))  # words of the source, equally often
MOST_PAIRS: Final = 10_000_000  # a list in memory: some gigabytes
PATIENCE: Final = 5_000  # draws in a row that give nothing new before a band counts as empty


def cldr_pairs(  # long: the arguments and what each may be are most of it
    source: str,
    target: str,
    *,
    n: int,
    split: Split,
    seed: int = 0,
    max_words: int = 60,
    kinds: Sequence[str] | None = None,
) -> list[tuple[str, str]]:
    """Make `n` distinct pairs of texts in two locales, the first to be translated.

    The target is a function of the source over all calls; which split a source belongs to is
    a function of its text, so that none is in two splits. The same arguments give the same
    list everywhere, and a smaller `n` gives its beginning.

    Args:
        source, target: two different names among `locales()`.
        n: how many pairs, at most 10,000,000.
        split: "train" (eight texts of ten), "valid" or "test" (one of ten each).
        seed: which of the many possible lists.
        max_words: the longest source or target, in words between white space; the shortest
            source has 2.
        kinds: the kinds of expression to use, names in `KINDS`; None is all.

    Raises:
        UserError: an unknown locale, split or kind, a number out of range, or an `n` that is larger
            than the number of pairs there are.
    """
    if split not in SPLITS:
        raise UserError(f"unknown split {split!r}", where="split", todo=f"use {', '.join(SPLITS)}")
    if not 1 <= n <= MOST_PAIRS:
        raise UserError(f"n is {n}", where="n", todo=f"ask for 1 to {MOST_PAIRS} pairs")
    if max_words < 2:
        raise UserError(f"max_words is {max_words}", where="max_words", todo="use 2 or more")
    source_locale = parse_locale(source, where="source")
    target_locale = parse_locale(target, where="target")
    if source_locale == target_locale:
        raise UserError(
            f"source and target are both {source!r}", where="target", todo="use two locales"
        )
    chosen = _chosen(kinds)
    draws = random.Random(f"{seed} {source_locale} {target_locale} {max_words} {chosen}")
    sampler = Sampler(source_locale, target_locale, draws=draws, max_words=max_words, kinds=chosen)
    pairs = _collect(sampler, list(_bands(max_words)), n=n, split=split)
    if len(pairs) < n:
        raise UserError(
            f"{n} pairs were asked for, but only {len(pairs)} distinct ones were found",
            where="n",
            todo=f"ask for {len(pairs)} or fewer, raise max_words or allow more kinds",
        )
    return list(pairs.items())


def _chosen(kinds: Sequence[str] | None) -> tuple[str, ...]:
    """The kinds that were asked for, in the order of the table."""
    for kind in kinds or ():
        if kind not in KINDS:
            raise unknown("kind of expression", kind, KINDS, where="kinds")
    return tuple(kind for kind in KINDS if kinds is None or kind in kinds)


def _collect(
    sampler: Sampler, bands: list[tuple[int, int]], *, n: int, split: Split
) -> dict[str, str]:
    """Draw `n` distinct pairs of a split, or all that patience finds."""
    pairs: dict[str, str] = {}
    idle = 0
    while len(pairs) < n and bands:
        # In turn and not by chance, so that the rarer texts of a band are not pushed out by the
        # draws that come to nothing.
        band = bands[len(pairs) % len(bands)]
        pair = sampler.draw(*band)
        if pair is not None and pair[0] not in pairs and split_of(pair[0]) == split:
            pairs[pair[0]] = pair[1]
            idle = 0
            continue
        idle += 1
        if idle > PATIENCE:
            bands.remove(band)
            idle = 0
    return pairs


def split_of(source: str) -> Split:
    """Say to which split a source text belongs: a function of the text alone."""
    digest = blake2b(source.encode(), digest_size=8).digest()
    return TENTHS.get(int.from_bytes(digest, "big") % 10, "train")


class Sampler:
    """Draws pairs: first a length in a band, then what fills it."""

    def __init__(
        self,
        source: Locale,
        target: Locale,
        *,
        draws: random.Random,
        max_words: int,
        kinds: tuple[str, ...],
    ) -> None:
        """Sort the inventory of the two locales by length. `draws` is the only randomness."""
        self._source, self._target, self._max_words = source, target, max_words
        self._random = draws.random
        self._inventory = inventory(source, target)
        alone = {kind: each for kind, each in self._inventory.alone.items() if kind in kinds}
        self._alone = _by_words(alone, max_words)
        self._in_lists = {
            kind: (expressions, _by_words({kind: expressions}, max_words))
            for kind, expressions in self._inventory.in_lists.items()
            if kind in kinds
        }
        self._kinds = tuple(self._in_lists)

    def draw(self, shortest: int, longest: int) -> tuple[str, str] | None:
        """Give a pair whose source has so many words, or None where the draw came to nothing."""
        goal = shortest + int(self._random() * (longest - shortest + 1))
        if goal in self._alone and self._random() * goal < 2:
            alone = self._pick(self._pick(self._alone[goal]))
            return self._within_bounds(alone.source, alone.target, shortest, longest)
        if not self._inventory.styles or not self._kinds:
            return None
        return self._draw_list(goal, shortest, longest)

    def _within_bounds(
        self, source: str, target: str, shortest: int, longest: int
    ) -> tuple[str, str] | None:
        if not shortest <= count_words(source, self._source) <= longest:
            return None
        if count_words(target, self._target) > self._max_words:
            return None
        return source, target

    def _draw_list(self, goal: int, shortest: int, longest: int) -> tuple[str, str] | None:
        or_else = len(self._inventory.styles) - 1
        name = self._inventory.styles[or_else if self._random() < 0.25 else 0]
        source_joiner = self._inventory.source_joiner
        style = source_joiner.styles[name]
        items = self._fill(goal - _extra_words(style.pair))
        if len(items) < 2:
            return None
        pieces = style.pieces([item.source for item in items])
        source = "".join(pieces)
        if source_joiner.take_apart(source) != pieces:
            return None
        style = self._inventory.target_joiner.styles[name]
        target = style.join([item.target for item in items])
        return self._within_bounds(source, target, shortest, longest)

    def _fill(self, room: int) -> list[Expression]:
        """Draw different expressions of one to three kinds with `room` words in all, or fewer."""
        n_kinds = 1 if self._random() < 0.5 else 2 + int(self._random() * 2)
        kinds = [self._pick(self._kinds) for _ in range(n_kinds)]
        items: dict[Expression, None] = {}
        for _ in range(2 * room):
            expressions, by_words = self._in_lists[self._pick(kinds)]
            item = self._pick(expressions)
            if item.words > room:
                fitting = [words for words in by_words if words <= room]
                if not fitting:
                    continue
                item = self._pick(self._pick(by_words[max(fitting)]))
            if item not in items:
                items[item] = None
                room -= item.words
            if room <= 0:
                break
        return list(items)

    def _pick(self, choices: Sequence[_T]) -> _T:
        return choices[int(self._random() * len(choices))]


def _extra_words(separator: str) -> int:
    """Count the words that a separator adds ("et" is one, a comma none)."""
    return len(f"a{separator}a".split()) - len(("a a" if " " in separator else "aa").split())


def _bands(max_words: int) -> Iterator[tuple[int, int]]:
    """Give the bands of lengths up to `max_words`; the last one reaches it."""
    for shortest, longest in BANDS:
        if shortest <= max_words:
            last = (shortest, longest) == BANDS[-1]
            yield shortest, max_words if last else min(longest, max_words)


def _by_words(
    kinds: dict[str, list[Expression]], max_words: int
) -> dict[int, list[list[Expression]]]:
    """Sort expressions by their words: for each number, one list for each kind that has some."""
    sorted_: dict[int, dict[str, list[Expression]]] = {}
    for kind, expressions in kinds.items():
        for expression in expressions:
            if expression.words <= max_words:
                sorted_.setdefault(expression.words, {}).setdefault(kind, []).append(expression)
    return {words: list(found.values()) for words, found in sorted(sorted_.items())}
