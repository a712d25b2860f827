"""Pairs: two files belong together line by line, or are refused; empty sides are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.data.cldr import cldr_pairs
from headway.data.pairs import Pairs, load_part, read_pairs
from headway.settings.data import BuiltinPairs, DataSettings, PairFiles

Files = Callable[[str, str], tuple[str, str]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    def write(source: str, target: str) -> tuple[str, str]:
        paths = tmp_path / "text.fr", tmp_path / "text.en"
        for path, text in zip(paths, (source, target), strict=True):
            path.write_bytes(text.encode())
        return str(paths[0]), str(paths[1])

    return write


def test_line_i_belongs_to_line_i(files: Files) -> None:
    source, target = files("un\ndeux\u2028trois\r\nquatre", "one\ntwo three\nfour\n")
    pairs = read_pairs(source, target)
    assert pairs.sources == ["un", "deux\u2028trois", "quatre"]
    assert pairs.targets == ["one", "two three", "four"]
    assert len(pairs) == 3
    assert list(pairs.texts()) == [*pairs.sources, *pairs.targets]
    assert pairs.origin == f"{source}, {target}"


@pytest.mark.parametrize(
    ("source", "target", "suspect"),
    [
        ("un\ndeux\ntrois\n", "one\ntwo\nthree\nfour\n", 4),  # E2: the first that has no partner
        ("un\n\ndeux\ntrois\n", "one\ntwo\nthree\n", 2),  # where one side is empty
        ("un\n\ndeux\n", "one\n\ntwo\n\nthree\n", 4),  # empty on both sides is no sign
    ],
)
def test_unequal_files_are_refused(files: Files, source: str, target: str, suspect: int) -> None:
    """E2: both counts, and where to look; also if the first lines asked for would do."""
    paths = files(source, target)
    counts = f"{source.count(chr(10))} and {target.count(chr(10))} lines"
    for lines in (None, 1):
        with pytest.raises(UserError) as caught:
            read_pairs(*paths, lines=lines)
        assert caught.value.where == ", ".join(paths)
        assert counts in caught.value.what
        assert str(caught.value).endswith(f"look at line {suspect}")


def test_pairs_with_an_empty_side_are_left_out_and_counted(files: Files) -> None:
    """E3."""
    pairs = read_pairs(*files("a\n\n  \nb\n\u00a0\nc\n", "A\nx\ny\nB\nz\n\t\n"))
    assert (pairs.sources, pairs.targets) == (["a", "b"], ["A", "B"])
    assert pairs.notices == ("4 pairs with an empty side left out",)


def test_nothing_left_is_refused(files: Files) -> None:
    with pytest.raises(UserError, match="no pair has text on both sides"):
        read_pairs(*files("a\n\n", "\nB\n"))


def test_odd_separators_are_counted_and_shown(files: Files) -> None:
    """E1: in which file, how many, on which lines."""
    source, target = files("a\nb\u2028c\nd\x00\n", "A\nB\nC\n")
    (notice,) = read_pairs(source, target).notices
    assert notice == f"{source}: 2 lines hold odd separators or NUL (lines 2, 3)"
    source, target = files("a\n" * 9, "A\x85\n" * 9)
    (notice,) = read_pairs(source, target).notices
    assert notice == f"{target}: 9 lines hold odd separators or NUL (lines 1, 2, 3, 4, 5)"
    assert read_pairs(*files("a\n", "A\n")).notices == ()


def test_the_first_lines_only(files: Files) -> None:
    pairs = read_pairs(*files("a\n\nb\x0c\nc\n", "A\nB\nC\nD\n"), lines=2)
    assert (pairs.sources, pairs.targets) == (["a"], ["A"])
    assert pairs.notices == ("1 pairs with an empty side left out",)
    assert len(read_pairs(*files("a\nb\n", "A\nB\n"), lines=100)) == 2
    first = Pairs(["a", "b", "c"], ["A", "B", "C"], "here").first(2)
    assert (first.sources, first.targets, first.origin) == (["a", "b"], ["A", "B"], "here")


def test_the_digest_tells_any_change() -> None:
    made = [
        Pairs(["a", "b"], ["A", "B"], "here"),
        Pairs(["b", "a"], ["B", "A"], "here"),  # order counts
        Pairs(["A", "B"], ["a", "b"], "here"),  # sides count
        Pairs(["ab", ""], ["A", "B"], "here"),
        Pairs(["a", "b"], ["A", "B "], "here"),
    ]
    assert len({pairs.digest() for pairs in made}) == len(made)
    assert Pairs(["a", "b"], ["A", "B"], "there", ("noticed",)).digest() == made[0].digest()


def test_parts_come_from_files_or_the_corpus(files: Files) -> None:
    source, target = files("a\nb\n", "A\nB\n")
    settings = DataSettings(
        source_language="fr",
        target_language="en",
        train=PairFiles(source=source, target=target, lines=1),
        test=BuiltinPairs(corpus="builtin:cldr", lines=20, max_words=8, seed=3),
    )
    train, test = load_part(settings, "train"), load_part(settings, "test")
    assert train is not None
    assert train.sources == ["a"]
    assert load_part(settings, "valid") is None
    assert test is not None
    wanted = cldr_pairs("fr", "en", n=20, split="test", seed=3, max_words=8)
    assert list(zip(test.sources, test.targets, strict=True)) == wanted
    assert test.origin == "builtin:cldr test"
