"""A part as a stream: the same at each pass, small in memory, duplicates counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.base.errors import UserError
from headway.data import pair_stream as stream_module
from headway.data.notes import DUPLICATE
from headway.data.pair_stream import PairStream, Seen
from headway.data.pairs import collect, notices

Make = Callable[..., PairStream]
Write = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("block", [1, 7, 4096])
def test_seen_is_a_set_of_hashes(block: int) -> None:
    draw = random.Random(1)
    values = [draw.randrange(300) * 2**54 for _ in range(1000)]
    seen, known = Seen(), set[int]()
    for start in range(0, len(values), block):
        some = values[start : start + block]
        wanted = [value in known or value in some[:place] for place, value in enumerate(some)]
        assert seen.add(np.array(some, np.uint64)).tolist() == wanted
        known.update(some)
    assert sum(map(len, seen._sorted)) == len(known)


def test_seen_stays_in_few_arrays() -> None:
    seen = Seen()
    for block in range(1000):
        assert not seen.add(np.arange(block * 10, block * 10 + 10, dtype=np.uint64)).any()
    assert len(seen._sorted) < 12


@pytest.mark.parametrize("block", [1, 2, 4096])
def test_duplicates_are_kept_or_dropped_and_counted(
    block: int, write: Write, stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides must be equal; the first stays."""
    monkeypatch.setattr(stream_module, "BLOCK", block)
    pairs = [("a", "A"), ("b", "B"), ("a", "A"), ("a", "B"), ("aA", ""), ("a", "A"), ("b", "B")]
    table = write("files", pairs)
    kept = stream(**table)
    assert list(zip(collect(kept).sources, collect(kept).targets, strict=True)) == [
        pair for pair in pairs if pair[1]
    ]
    assert notices(kept) == ("1 pairs with an empty side left out",)
    told = "3 pairs that were there before kept (data.duplicates = 'drop' leaves them out)"
    assert told in notices(kept, duplicates=True)
    dropped = stream({"duplicates": "drop"}, **table)
    assert list(dropped.texts("source")) == ["a", "b", "a"]
    assert list(dropped.texts("target")) == ["A", "B", "B"]
    assert dropped.reading is not None
    finding = dropped.reading.notes.found[DUPLICATE]
    assert (finding.count, finding.dropped) == (3, True)
    assert [each.line for each in finding.examples] == [3, 6, 7]


def test_the_digest_is_that_of_pairs_in_memory(write: Write, stream: Make) -> None:
    """Runs that began when everything was in memory resume."""
    pairs = [(f"é {n}", f"{n} \u2028") for n in range(5000)] + [("", "x")]
    table = write("tsv", pairs)
    made = stream(**table)
    assert made.digest() == collect(stream(**table)).digest()
    assert made.digest() == stream(**table).digest()
    assert stream(**write("tsv", pairs[1:])).digest() != made.digest()


@pytest.mark.parametrize("change", [("b", "B"), ("B", "b"), ("x", ""), None])
def test_data_that_change_between_two_passes_are_refused(
    change: tuple[str, str] | None, write: Write, stream: Make
) -> None:
    """E2: what the tokeniser learnt from is what is encoded."""
    pairs = [("a", "A"), ("c", "C")]
    made = stream(**write("tsv", pairs))
    assert list(made.texts()) == ["a", "c", "A", "C"]
    write("tsv", [*pairs, change] if change else pairs[:1])
    if change == ("x", ""):  # nothing that would be used
        assert list(made.texts()) == ["a", "c", "A", "C"]
        return
    with pytest.raises(UserError, match="the data changed while they were being read"):
        list(made.texts())


def test_a_block_at_a_time_is_in_memory(
    write: Write, stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "BLOCK", 10)
    blocks = list(stream(**write("csv", [(f"a{n}", f"b{n}") for n in range(25)])).blocks())
    assert [len(block.numbers) for block in blocks] == [10, 10, 5]
    assert blocks[1].numbers == list(range(12, 22))  # the head is line 1
    assert blocks[2].sources[0] == "a20"


def test_nothing_is_read_before_it_is_asked_for(stream: Make, tmp_path: Path) -> None:
    made = stream(source=str(tmp_path / "none"), target=str(tmp_path / "none"))
    with pytest.raises(ValueError, match="nothing has been read"):
        notices(made)
    with pytest.raises(UserError, match="there is no such file"):
        next(made.blocks())
