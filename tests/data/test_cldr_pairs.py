"""The built-in corpus as a whole: a function, seeded, split, of every length."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import product

import pytest

from headway.base.errors import UserError
from headway.data.cldr import cldr_pairs, locales
from headway.data.cldr.pairs import Split, split_of

SPLITS: tuple[Split, ...] = ("train", "valid", "test")


@pytest.fixture(scope="module")
def french() -> list[tuple[str, str]]:
    return cldr_pairs("fr", "en", n=20_000, split="train")


@pytest.fixture(scope="module")
def many_short() -> list[tuple[str, str]]:
    return cldr_pairs("fr", "en", n=200_000, split="train", max_words=8)


def test_each_source_has_one_target_over_seeds_splits_and_lengths(
    french: list[tuple[str, str]], many_short: list[tuple[str, str]]
) -> None:
    pairs = french + many_short
    for seed, split in product((0, 1), ("valid", "test")):
        pairs += cldr_pairs("fr", "en", n=1_500, split=split, seed=seed)
    targets: dict[str, set[str]] = {}
    for source, target in pairs:
        targets.setdefault(" ".join(source.casefold().split()), set()).add(target)
    assert [found for found in targets.items() if len(found[1]) > 1] == []
    assert len(targets) < len(pairs)  # some sources came twice, so that there was a choice


def test_the_other_direction_is_a_function_too() -> None:
    pairs = cldr_pairs("en", "fr", n=8_000, split="train", max_words=5)
    pairs += cldr_pairs("en", "fr", n=8_000, split="train", max_words=5, seed=1)
    assert len(set(pairs)) == len({source for source, _ in pairs})


def test_pairs_are_distinct_and_no_source_is_in_two_splits(
    french: list[tuple[str, str]],
) -> None:
    seen: dict[str, set[str]] = {"train": {source for source, _ in french}}
    assert len(seen["train"]) == len(french)
    for split in ("valid", "test"):
        seen[split] = {
            source
            for seed in (0, 1)
            for source, _ in cldr_pairs("fr", "en", n=700, split=split, seed=seed)
        }
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["valid"]
    assert not seen["valid"] & seen["test"]


def test_the_split_is_a_function_of_the_text() -> None:
    found = Counter(split_of(f"texte {i}") for i in range(10_000))
    assert found["train"] == pytest.approx(8000, rel=0.03)
    assert found["valid"] == pytest.approx(1000, rel=0.1)
    # Fixed for good: a text that moves would carry test items into training.
    texts = ("France", "3 kilomètres", "mai 2020", "f")
    assert [split_of(text) for text in texts] == ["train", "test", "train", "valid"]


def test_lengths_run_from_2_to_60_words_in_even_bands(french: list[tuple[str, str]]) -> None:
    lengths = Counter(len(source.split()) for source, _ in french)
    assert set(lengths) == set(range(2, 61))
    for shortest, longest in ((2, 8), (9, 16), (17, 32), (33, 60)):
        share = sum(lengths[words] for words in range(shortest, longest + 1)) / len(french)
        assert share == 0.25
        for words in range(shortest, longest + 1):
            even = len(french) / 4 / (longest - shortest + 1)
            assert lengths[words] > even / 3
    assert max(len(target.split()) for _, target in french) <= 60


@pytest.mark.parametrize("max_words", [2, 7, 20, 80])
def test_max_words_bounds_both_sides(max_words: int) -> None:
    pairs = cldr_pairs("fr", "en", n=1_000, split="train", max_words=max_words)
    lengths = {len(source.split()) for source, _ in pairs}
    assert min(lengths) == 2
    assert max(lengths) == max_words
    assert max(len(target.split()) for _, target in pairs) <= max_words


@pytest.mark.parametrize("split", SPLITS)
def test_a_shorter_list_is_the_beginning_of_a_longer_one(split: Split) -> None:
    longer = cldr_pairs("fr", "en", n=300, split=split, seed=3)
    assert cldr_pairs("fr", "en", n=100, split=split, seed=3) == longer[:100]
    assert cldr_pairs("fr", "en", n=100, split=split, seed=4) != longer[:100]


def test_another_process_with_another_hash_seed_makes_the_same_pairs() -> None:
    code = (
        "import json; from headway.data.cldr import cldr_pairs; "
        "print(json.dumps(cldr_pairs('fr', 'en', n=400, split='test', seed=5)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    here = [list(pair) for pair in cldr_pairs("fr", "en", n=400, split="test", seed=5)]
    assert json.loads(process.stdout) == here


def test_there_are_at_least_200_000_pairs(many_short: list[tuple[str, str]]) -> None:
    assert len(dict(many_short)) == 200_000


def test_words_are_few_enough_to_learn(french: list[tuple[str, str]]) -> None:
    for side in (0, 1):
        words = {word for pair in french for word in re.findall(r"[^\W\d_][\w’.-]*", pair[side])}
        assert 1_000 < len(words) < 2_500


@pytest.mark.parametrize(("source", "target"), [("de", "es"), ("ja", "fr"), ("ar", "pt_BR")])
def test_any_two_locales_work(source: str, target: str) -> None:
    pairs = cldr_pairs(source, target, n=2_000, split="train")
    assert len(dict(pairs)) == 2_000
    assert all(text and text == text.strip() for pair in pairs for text in pair)


def test_a_locale_name_may_have_a_hyphen() -> None:
    hyphen = cldr_pairs("pt-BR", "fr", n=20, split="valid")
    assert hyphen == cldr_pairs("pt_BR", "fr", n=20, split="valid")


def test_locales_are_those_of_both_libraries() -> None:
    assert {"fr", "en", "de", "es", "pt_BR"} <= set(locales())
    assert "tet" not in locales()  # num2words only
    assert "zu" not in locales()  # babel only


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"source": "ft"}, "source: unknown locale 'ft'.*known: am, ar, "),
        ({"target": "frr"}, "target: unknown locale 'frr'; did you mean 'fr'"),
        ({"target": "tet"}, "target: unknown locale 'tet'"),
        ({"target": "fr"}, "both 'fr'"),
        ({"n": 0}, "n is 0"),
        ({"n": 10**9}, "n is 1000000000"),
        ({"split": "dev"}, "unknown split 'dev'"),
        ({"max_words": 1}, "max_words is 1"),
    ],
)
def test_what_cannot_be_made_is_said(changes: dict[str, object], says: str) -> None:
    asked: dict[str, object] = {"source": "fr", "target": "en", "n": 5, "split": "train"}
    asked.update(changes)
    with pytest.raises(UserError, match=says):
        cldr_pairs(**asked)  # type: ignore[arg-type]


def test_more_pairs_than_there_are_is_an_error_with_both_counts() -> None:
    with pytest.raises(UserError, match=r"300000 pairs were asked for, but only \d+ distinct") as e:
        cldr_pairs("fr", "en", n=300_000, split="test", max_words=2)
    found = int(str(e.value).split("only ")[1].split()[0])
    assert len(cldr_pairs("fr", "en", n=found, split="test", max_words=2)) == found > 100
