"""The corpus narrowed to some kinds of expression."""

from __future__ import annotations

import re

import pytest

from headway.base.errors import UserError
from headway.data.cldr import cldr_pairs

SPELLED = re.compile(r"[a-zé ,-]+")


def test_only_the_chosen_kinds_are_used() -> None:
    pairs = cldr_pairs("fr", "en", n=500, split="train", kinds=["spelled"], max_words=20)
    assert all(SPELLED.fullmatch(source) and SPELLED.fullmatch(target) for source, target in pairs)
    everything = cldr_pairs("fr", "en", n=500, split="train", max_words=20)
    assert not all(SPELLED.fullmatch(source) for source, _ in everything)


def test_the_order_of_kinds_does_not_matter() -> None:
    made = [
        cldr_pairs("fr", "en", n=200, split="test", kinds=kinds)
        for kinds in (["country", "span"], ["span", "country", "span"])
    ]
    assert made[0] == made[1]


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UserError, match="'contry'; did you mean 'country'"):
        cldr_pairs("fr", "en", n=1, split="train", kinds=["contry"])


def test_no_kind_at_all_leaves_no_pairs() -> None:
    with pytest.raises(UserError, match="only 0 distinct"):
        cldr_pairs("fr", "en", n=1, split="train", kinds=[])
