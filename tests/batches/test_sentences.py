"""Rows of one or two texts: every token once a pass, whole sentences, honest second texts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.batches.pairs import EncodedSide
from headway.batches.sentences import ANOTHER, FOLLOWS, UNASKED, SentenceRows, Texts, marked

SENTENCES = st.lists(st.integers(1, 7), min_size=1, max_size=9)  # lengths, of a document
DOCUMENTS = st.lists(SENTENCES, min_size=1, max_size=9)


def side_of(documents: list[list[int]]) -> EncodedSide:
    """Ids that tell their document and their place in it: 1000 × document + place."""
    rows = []
    for number, lengths in enumerate(documents):
        ends = np.cumsum(lengths).tolist()
        sentences = [
            [1000 * number + place for place in range(end - length, end)]
            for end, length in zip(ends, lengths, strict=True)
        ]
        rows.append(marked(sentences))
    return EncodedSide.of(rows)


def a_pass(rows: SentenceRows, number: int = 0) -> list[Texts]:
    return [rows.row(place) for place in range(number * rows.n_rows, (number + 1) * rows.n_rows)]


def begins_sentence(documents: list[list[int]]) -> set[int]:
    return {
        1000 * number + start
        for number, lengths in enumerate(documents)
        for start in np.cumsum([0, *lengths[:-1]]).tolist()
    }


@given(DOCUMENTS, st.integers(5, 20), st.integers(0, 2), st.booleans())
def test_no_token_twice_a_pass_and_none_lost_but_at_a_full_row(
    documents: list[list[int]], room: int, number: int, pairs: bool
) -> None:
    rows = SentenceRows(side_of(documents), room, seed=(3, 0), pairs=pairs)
    seen = Counter[int]()
    for texts in a_pass(rows, number):
        assert 0 < len(texts.first) + len(texts.second) <= room
        seen.update([*texts.first.tolist(), *texts.second.tolist()])
    assert set(seen.values()) == {1}
    wanted = {1000 * n + place for n, each in enumerate(documents) for place in range(sum(each))}
    assert seen.keys() <= wanted
    lost = set[int]()  # the ends of second texts that are longer than the room they came into
    for texts in a_pass(rows, number):
        if texts.relation == ANOTHER and len(texts.first) + len(texts.second) == room:
            end = int(texts.second[-1]) + 1
            while end in wanted and end not in seen:
                lost.add(end)
                end += 1
    assert wanted - seen.keys() == lost
    if not pairs:
        assert seen.keys() == wanted


@given(DOCUMENTS, st.integers(5, 20))
def test_what_follows_does_and_what_is_anothers_is(documents: list[list[int]], room: int) -> None:
    rows = SentenceRows(side_of(documents), room, seed=(3, 0), pairs=True)
    begins = begins_sentence(documents)
    for first, second, relation in a_pass(rows):
        assert np.array_equal(first, np.arange(first[0], first[0] + len(first)))
        if not len(second):
            assert relation == UNASKED
            continue
        assert np.array_equal(second, np.arange(second[0], second[0] + len(second)))
        assert second[0] in begins
        assert relation == (FOLLOWS if second[0] == first[-1] + 1 else ANOTHER)
        assert (relation == FOLLOWS) == (second[0] // 1000 == first[0] // 1000)


def test_half_of_the_second_texts_are_anothers_and_lengths_tell_nothing() -> None:
    random = np.random.Generator(np.random.PCG64(1))
    documents = [random.integers(3, 30, 40).tolist() for _ in range(120)]
    rows = SentenceRows(side_of(documents), 61, seed=(3, 0), pairs=True)
    found = a_pass(rows)
    by: dict[int, list[tuple[int, int]]] = {FOLLOWS: [], ANOTHER: [], UNASKED: []}
    for first, second, relation in found:
        by[relation].append((len(first), len(second)))
    asked = len(by[FOLLOWS]) + len(by[ANOTHER])
    assert asked > 0.8 * len(found)
    assert 0.47 < len(by[ANOTHER]) / asked <= 0.5
    for side in (0, 1):
        means = [np.mean([each[side] for each in by[which]]) for which in (FOLLOWS, ANOTHER)]
        assert means[0] == pytest.approx(means[1], rel=0.06)
    totals = {which: [sum(each) for each in by[which]] for which in (FOLLOWS, ANOTHER)}
    assert np.std(totals[FOLLOWS]) == pytest.approx(np.std(totals[ANOTHER]), rel=0.15)


def test_about_a_tenth_of_the_rows_of_pairs_are_shorter() -> None:
    documents = [[1] * 40_000, [1] * 40_000]
    lengths = [
        len(first) + len(second)
        for first, second, _ in a_pass(SentenceRows(side_of(documents), 50, seed=(1,), pairs=True))
    ]
    assert 0.07 < np.mean(np.array(lengths) < 50) < 0.14
    whole = a_pass(SentenceRows(side_of(documents), 50, seed=(1,), pairs=False))
    assert all(len(first) == 50 for first, _, _ in whole)


def test_rows_end_where_sentences_do() -> None:
    documents = [[3, 4, 5, 6, 7] * 40 for _ in range(4)]
    begins = begins_sentence(documents)
    for first, second, _ in a_pass(SentenceRows(side_of(documents), 40, seed=(1,), pairs=True)):
        assert first[0] in begins
        assert not len(second) or second[0] in begins


def test_each_pass_has_an_order_splits_and_partners_of_its_own_and_repeats_them() -> None:
    documents = [[3, 4, 5] * 20 for _ in range(9)]
    one, other = (SentenceRows(side_of(documents), 30, seed=(7, 0), pairs=True) for _ in range(2))

    def ids(rows: SentenceRows, number: int) -> list[list[int]]:
        return [
            [*first.tolist(), -1, *second.tolist()] for first, second, _ in a_pass(rows, number)
        ]

    passes = [ids(one, number) for number in range(3)]
    assert passes[0] != passes[1] != passes[2]
    assert sorted(passes[0]) != sorted(passes[1])  # not the order alone
    assert ids(other, 2) == passes[2]


def test_lengths_are_those_of_the_rows() -> None:
    documents = [[3, 4, 5] * (4 + n) for n in range(9)]
    rows = SentenceRows(side_of(documents), 30, seed=(7, 0), pairs=True)
    places = np.array([0, 5, rows.n_rows - 1, rows.n_rows, 2 * rows.n_rows + 3, 1])
    assert rows.lengths(places).tolist() == [
        len(first) + len(second) for first, second, _ in map(rows.row, places.tolist())
    ]


def test_a_document_changes_no_row_that_it_has_no_part_in() -> None:
    documents = [[3, 4, 5] * 10 for _ in range(6)]
    side = side_of(documents)
    start, end = side.starts[2:4]
    changed = side.ids.copy()
    changed[start:end] = np.where(changed[start:end] < 0, ~777_777, 777_777)
    one = SentenceRows(side, 30, seed=(7, 0), pairs=True)
    other = SentenceRows(EncodedSide(changed, side.starts), 30, seed=(7, 0), pairs=True)
    same = 0
    for before, after in zip(a_pass(one), a_pass(other), strict=True):
        for text, now in zip(before[:2], after[:2], strict=True):
            if len(text) and text[0] // 1000 == 2:
                assert (now == 777_777).all()
            else:
                assert np.array_equal(text, now)
                same += 1
    assert same > 10


def test_a_single_document_and_a_single_sentence_are_texts_alone() -> None:
    for documents in ([[3] * 50], [[5], [4], [6]]):
        rows = SentenceRows(side_of(documents), 20, seed=(1,), pairs=True)
        assert {relation for _, _, relation in a_pass(rows)} == {UNASKED}
        assert all(not len(second) for _, second, _ in a_pass(rows))


def test_documents_without_ids_have_no_rows() -> None:
    side = EncodedSide.of([marked([]), marked([[5, 6], [], [7]]), marked([[]])])
    rows = SentenceRows(side, 9, seed=(1,), pairs=True)
    assert [texts.first.tolist() for texts in a_pass(rows)] == [[5, 6, 7]]
