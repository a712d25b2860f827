"""Valid and test held out of the training part: by the source alone, and never in two parts."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.data import pair_stream as stream_module
from headway.data.held_out import HELD, HeldOut, place_of
from headway.data.pair_stream import PairStream
from headway.data.pairs import collect, load_part, notices, open_part
from headway.data.tables import PartName
from headway.settings.data import DataSettings

Write = Callable[..., dict[str, Any]]
PARTS: tuple[PartName, ...] = ("train", "valid", "test")
# as in the files of courses: sorted by length, a source several times, with other targets
PAIRS = sorted(
    ((f"{'go ' * (n % 9)}{n % 400}", f"{'va ' * (n % 7)}{n}") for n in range(1000)),
    key=lambda pair: len(pair[0]),
)


def settings_of(train: dict[str, Any], held_out: float, **data: Any) -> DataSettings:
    table = {"source_language": "en", "target_language": "fr", "train": train}
    return DataSettings.model_validate(table | {"held_out": held_out} | data)


def opened(settings: DataSettings, name: PartName) -> PairStream:
    stream = open_part(settings, name)
    assert stream is not None
    return stream


def pairs_of(settings: DataSettings, name: PartName) -> list[tuple[str, str]]:
    pairs = collect(opened(settings, name))
    return list(zip(pairs.sources, pairs.targets, strict=True))


def test_the_place_of_a_source_never_changes() -> None:
    """Not even with the version of Python: runs are resumed and compared years later."""
    assert place_of("Go.") == 0x1BA0BB1946286D48
    assert place_of("") == 0xB4B2797457A0A6E4
    same = "Où  vas-tu", " où vas-tu\t", unicodedata.normalize("NFD", "OÙ VAS-TU")
    assert len({place_of(text) for text in same}) == 1
    assert len({place_of(text) for text in (*same, "ou vas-tu", "Où vas-tu ?")}) == 3


@pytest.mark.parametrize("kind", ["files.gz", "tsv", "csv", "jsonl"])
@pytest.mark.parametrize("block", [7, 1024])
def test_no_source_is_in_two_parts_and_no_pair_is_lost(
    kind: str, block: int, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "BLOCK", block)
    settings = settings_of(write(kind, PAIRS), 0.1)
    parts = {name: pairs_of(settings, name) for name in PARTS}
    assert sorted(pair for part in parts.values() for pair in part) == sorted(PAIRS)
    sources = {name: {source for source, _ in part} for name, part in parts.items()}
    assert len(set.union(*sources.values())) == sum(map(len, sources.values()))
    n = len({source for source, _ in PAIRS})
    for name in ("valid", "test"):
        assert 0.07 < len(sources[name]) / n < 0.13, name


def test_what_else_is_there_and_in_which_order_changes_nothing(write: Write) -> None:
    some = random.Random(1).sample(PAIRS, 500)
    before = {name: set(pairs_of(settings_of(write("tsv", PAIRS), 0.2), name)) for name in PARTS}
    for name in PARTS:
        now = pairs_of(settings_of(write("tsv", some), 0.2), name)
        assert set(now) == before[name] & set(some)


def test_a_greater_share_only_adds_and_makes_no_test_pair_one_of_validation() -> None:
    sources = [str(n) for n in range(2000)]
    small, large = (HeldOut(share, ("valid", "test")) for share in (0.05, 0.49))
    for name in ("valid", "test"):
        chosen = {source for source in sources if small.part(source) == name}
        assert 60 < len(chosen) < 140
        assert chosen < {source for source in sources if large.part(source) == name}


@pytest.mark.parametrize("own", ["valid", "test"])
def test_only_a_part_that_is_missing_is_made(own: PartName, write: Write, tmp_path: Path) -> None:
    for side in ("source", "target"):
        (tmp_path / f"own.{side}").write_text("mine\n", encoding="utf-8")
    files = {side: str(tmp_path / f"own.{side}") for side in ("source", "target")}
    table = write("tsv", PAIRS)
    settings, both = settings_of(table, 0.1, **{own: files}), settings_of(table, 0.1)
    assert pairs_of(settings, own) == [("mine", "mine")]
    other: PartName = "test" if own == "valid" else "valid"
    assert pairs_of(settings, other) == pairs_of(both, other)
    assert sorted(pairs_of(settings, "train")) == sorted(
        pairs_of(both, "train") + pairs_of(both, own)
    )
    assert [each for each in notices(read_once(settings)) if HELD[own] in each] == []


def read_once(settings: DataSettings) -> PairStream:
    stream = opened(settings, "train")
    for _ in stream.blocks():
        pass
    return stream


def test_nothing_is_held_out_unless_asked_for(write: Write) -> None:
    settings = settings_of(write("tsv", PAIRS), 0)
    assert pairs_of(settings, "train") == PAIRS
    assert load_part(settings, "valid") is None
    assert load_part(settings, "test") is None


def test_what_is_held_out_and_bad_rows_are_told_of_the_training_part(
    write: Write,
) -> None:
    """Bad rows are few or not among all rows: they have no source that says where they belong."""
    bad = b"one cell\n" * 52
    settings = settings_of(write("tsv", PAIRS, change=lambda data: data + bad), 0.45)
    train, valid = read_once(settings), opened(settings, "valid")
    n = len(collect(valid))
    assert valid.reading is not None
    assert train.reading is not None
    assert (valid.reading.read, valid.reading.rows, valid.reading.bad) == (n, 1052, 52)
    assert notices(valid) == ()
    assert valid.origin == f"{valid.source.origin}, held out for valid"
    found = train.reading.notes.found
    assert train.reading.read == 1052
    assert found[HELD["valid"]].count == n
    assert f"{n} pairs held out for valid" in notices(train)
    assert found["a wrong number of fields"].count == 52
    assert sum(each.count for each in found.values()) + train.reading.kept == 1052
    number, text = (getattr(found[HELD["valid"]].examples[0], name) for name in ("line", "text"))
    assert text == " → ".join(PAIRS[number - 2])  # the head is line 1
    settings = settings_of(write("tsv", PAIRS, change=lambda data: data + bad + bad), 0.45)
    for name in PARTS:
        with pytest.raises(UserError, match="104 of 1,104 rows cannot be used, more than 5%: 104"):
            pairs_of(settings, name)


@pytest.mark.parametrize("name", ["valid", "test"])
def test_a_part_that_would_be_empty_is_refused(name: PartName, write: Write) -> None:
    table = write("tsv", [("a", "A"), ("b", "B")])
    with pytest.raises(UserError) as caught:
        load_part(settings_of(table, 0.001), name)
    assert str(caught.value) == (
        f"{table['file']}: data.held_out = 0.001 leaves no pair of 2 rows for the part '{name}'; "
        "give more data, another share, or files for data.valid and data.test"
    )


def test_all_may_not_be_held_out(write: Write) -> None:
    split = HeldOut(0.49, ("valid", "test"))
    sources = [text for text in map(str, range(20)) if split.part(text) != "train"]
    settings = settings_of(write("tsv", [(text, "x") for text in sources]), 0.49)
    with pytest.raises(UserError, match=r"leaves no pair of \d+ rows for the part 'train'"):
        pairs_of(settings, "train")
    blank = settings_of(write("tsv", [("a", " ")] * 3), 0.1)
    with pytest.raises(UserError, match="no pair has text on both sides"):
        pairs_of(blank, "train")


def test_the_first_that_are_held_out_are_not_the_shortest(write: Write) -> None:
    """An evaluation during training takes the first so many."""
    settings = settings_of(write("tsv", PAIRS), 0.2)
    part = load_part(settings, "valid")
    assert part is not None
    pairs = list(zip(part.sources, part.targets, strict=True))
    assert sorted(pairs) == sorted(pairs_of(settings, "valid"))
    lengths = [len(source) for source in part.sources]
    half = len(lengths) // 2
    assert lengths != sorted(lengths)
    assert abs(sum(lengths[:half]) - sum(lengths[half : 2 * half])) < 0.1 * sum(lengths)
