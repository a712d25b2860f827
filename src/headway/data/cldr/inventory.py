"""The expressions of two locales, aligned, with everything left out that has two readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from babel import Locale

from headway.data.cldr import dates, names, quantities
from headway.data.cldr.joining import Joiner, joiner_of
from headway.data.cldr.locales import count_words
from headway.data.cldr.tables import Key, Table

KINDS: Final[dict[str, Callable[[Locale], Table]]] = {
    "date": dates.whole_dates,
    "part of a date": dates.parts_of_dates,
    "time": dates.times,
    "interval": dates.intervals,
    "span": dates.spans,
    "spelled": quantities.spelled,
    "ordinal": quantities.ordinals,
    "figures": quantities.decimals,
    "percent": quantities.percentages,
    "large number": quantities.large_numbers,
    "money": quantities.money,
    "measure": quantities.measures,
    "country": names.countries,
    "language": names.languages,
    "currency": names.currencies,
}


class Expression(NamedTuple):
    """One expression in both locales."""

    source: str
    target: str
    words: int  # of the source
    key: Key


@dataclass(frozen=True)
class Inventory:
    """What pairs are made of: expressions by kind, and how each locale joins a list."""

    source_joiner: Joiner
    target_joiner: Joiner
    styles: tuple[str, ...]
    alone: dict[str, list[Expression]] = field(default_factory=dict)
    in_lists: dict[str, list[Expression]] = field(default_factory=dict)


@lru_cache(maxsize=8)
def inventory(source: Locale, target: Locale) -> Inventory:
    """Align the tables of two locales, leaving out what would make the target ambiguous.

    An expression may stand alone if its source cannot be read as a list, and in a list if it
    holds no separator at all.
    """
    sources, targets = joiner_of(source), joiner_of(target)
    styles = tuple(style for style in sources.styles if style in targets.styles)
    made = Inventory(sources, targets, styles)
    for kind, expressions in _unambiguous(source, target).items():
        alone = [e for e in expressions if not sources.is_list(e.source)]
        in_lists = [e for e in expressions if sources.is_item(e.source)]
        if alone:
            made.alone[kind] = alone
        if in_lists:
            made.in_lists[kind] = in_lists
    return made


def _unambiguous(source: Locale, target: Locale) -> dict[str, list[Expression]]:
    """Keep one target for each source text, over all kinds.

    Where a source text has two targets, the earlier form decides if both say the same thing;
    else the text is left out altogether. Texts that differ only in case or in the kind of space
    count as one, so that the corpus stays a function when it is read in lower case.
    """
    first: dict[str, tuple[str, Expression]] = {}
    ambiguous: set[str] = set()
    for kind in KINDS:
        targets = _table(kind, target)
        for key, text in _table(kind, source).items():
            if key not in targets:
                continue
            new = Expression(text, targets[key], count_words(text, source), key)
            reading = " ".join(text.casefold().split())
            old_kind, old = first.setdefault(reading, (kind, new))
            same_thing = old_kind == kind and old.key[1] == key[1]
            if old.target != new.target and not same_thing:
                ambiguous.add(reading)
    kept: dict[str, list[Expression]] = {kind: [] for kind in KINDS}
    for reading, (kind, expression) in first.items():
        if reading and reading not in ambiguous:
            kept[kind].append(expression)
    return kept


@lru_cache(maxsize=64)
def _table(kind: str, locale: Locale) -> Table:
    return {key: text.strip() for key, text in KINDS[kind](locale).items() if text.strip()}
