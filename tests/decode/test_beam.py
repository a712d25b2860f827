"""Beam search: against brute force, against greedy, and each row on its own."""

from __future__ import annotations

import itertools

import pytest
import torch

from headway.base.errors import UserError
from headway.decode.beam import beam_search
from headway.decode.greedy import greedy
from headway.decode.steps import Hypothesis

BOS, EOS = 0, 1
PENALTIES = [-0.5, 0.0, 0.6, 1.0, 3.0]


def search(model, keys, limits, width, **more):
    return beam_search(
        model, model.of(*keys), rows=len(keys), bos=BOS, eos=EOS, limits=limits, width=width, **more
    )


def chain(*steps):
    """A model of one row key that follows hand-written log-probabilities {prefix: {token: p}}."""
    table = dict(steps)

    def logits(key, prefix):
        row = torch.full((5,), -torch.inf)
        for token, log_prob in table.get(prefix, {EOS: 0.0}).items():
            row[token] = log_prob
        return row

    return logits


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize(("n_tokens", "limit"), [(3, 5), (4, 3), (5, 2)])
def test_a_beam_that_holds_all_is_an_exhaustive_search(toy, n_tokens, limit, length_penalty):
    width = n_tokens**limit
    for seed, eos in [(1, 0.0), (2, 2.0), (3, -2.0)]:
        model = toy(n_tokens=n_tokens, seed=seed, eos=eos)
        expected = model.everything(0, n_tokens, limit, length_penalty)
        for n_best in (1, 3, width):
            (found,) = search(
                model, [0], [limit], width, n_best=n_best, length_penalty=length_penalty
            )
            assert [(row.ids, row.ended) for row in found] == [
                (ids, ended) for ids, _, ended in expected[:n_best]
            ]
            assert [row.score for row in found] == pytest.approx(
                [score for _, score, _ in expected[:n_best]], abs=1e-5
            )


def test_exhaustive_search_without_the_banned_tokens(toy):
    model = toy(n_tokens=5, seed=4)
    expected = model.everything(0, 5, 3, 0.6, banned=[BOS, 3])
    (found,) = search(model, [0], [3], 125, n_best=125, banned=[BOS, 3])
    assert [row.ids for row in found] == [ids for ids, _, _ in expected]
    assert all(row.log_prob > -100 for row in found)


def plain_search(model, key, limit, width, length_penalty):
    """The textbook's beam search with lists, for one row; it never stops before its limit."""
    live, ended = [((), 0.0)], []
    for n in range(1, limit + 1):
        extensions = [
            ((*ids, token), total + log_prob)
            for ids, total in live
            for token, log_prob in enumerate(model.logits(key, ids).log_softmax(0).tolist())
        ]
        extensions.sort(key=lambda extension: -extension[1])
        penalty = ((5 + n) / 6) ** length_penalty
        ended += [
            (ids[:-1], total / penalty) for ids, total in extensions[:width] if ids[-1] == EOS
        ]
        live = [extension for extension in extensions if extension[0][-1] != EOS][:width]
    ended.sort(key=lambda hypothesis: -hypothesis[1])
    return ended, [(ids, total / penalty) for ids, total in live]


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_a_narrow_beam_finds_what_a_plain_one_without_early_stop_finds(toy, width, length_penalty):
    model, limits = toy(n_tokens=5, seed=5, eos=0.5), [1, 2, 3, 5, 8, 13]
    for n_best in {1, width}:
        found = search(model, range(6), limits, width, n_best=n_best, length_penalty=length_penalty)
        for key, (limit, row) in enumerate(zip(limits, found, strict=True)):
            ended, cut = plain_search(model, key, limit, width, length_penalty)
            expected = (ended + cut)[:n_best]
            assert [tuple(one.ids) for one in row] == [ids for ids, _ in expected]
            assert [one.score for one in row] == pytest.approx([score for _, score in expected])
            assert sum(one.ended for one in row) == min(len(ended), n_best)


@pytest.mark.parametrize("eos", [-1.0, 2.0])
def test_width_one_without_penalty_is_greedy(toy, eos):
    model, keys = toy(n_tokens=7, eos=eos), range(20)
    limits = [key % 9 for key in keys]
    beams = search(model, keys, limits, 1, length_penalty=0.0)
    paths = greedy(model, model.of(*keys), rows=20, bos=BOS, eos=EOS, limits=limits)
    assert [found for (found,) in beams] == paths
    assert {found.ended for found in paths} == {True, False}


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_a_row_is_the_same_alone_in_any_batch_and_in_any_order(toy, length_penalty):
    model = toy(n_tokens=9, eos=1.0)
    keys, limits = [4, 0, 9, 2, 7, 7, 5, 3], [20, 1, 0, 5, 20, 3, 30, 12]
    more = {"width": 4, "n_best": 3, "length_penalty": length_penalty}
    together = search(model, keys, limits, **more)
    alone = [
        search(model, [key], [limit], **more)[0] for key, limit in zip(keys, limits, strict=True)
    ]
    backwards = search(model, keys[::-1], limits[::-1], **more)[::-1]
    assert together == alone == backwards


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_asking_for_more_never_changes_the_best(toy, length_penalty):
    for seed in range(8):
        model = toy(n_tokens=6, seed=seed, eos=1.0)
        lists = [
            search(model, [0, 1], [15, 4], 4, n_best=n_best, length_penalty=length_penalty)
            for n_best in (1, 2, 3, 4)
        ]
        for fewer, more in itertools.pairwise(lists):
            for short, long in zip(fewer, more, strict=True):
                assert long[: len(short)] == short


def test_every_hypothesis_is_what_a_plain_pass_over_it_gives(toy):
    model = toy(n_tokens=12, eos=1.0)
    keys, limits = list(range(10)), [10, 3, 8, 25, 1, 12, 7, 9, 30, 2]
    for key, limit, found in zip(
        keys, limits, search(model, keys, limits, 4, n_best=4), strict=True
    ):
        assert len({(tuple(row.ids), row.ended) for row in found}) == len(found)
        for row in found:
            tokens = [*row.ids, EOS] if row.ended else row.ids
            assert len(tokens) <= limit
            assert row.ended or len(tokens) == limit
            assert row.log_prob == pytest.approx(model.rescore(key, tokens), abs=1e-4)
            assert row.score == pytest.approx(row.log_prob / ((5 + len(tokens)) / 6) ** 0.6)


# Two answers: 2 2 2 eos with -4 in all, and nine times 3 and eos with -4.5, all spent at once.
LATE = [((2,) * n, {2: 0.0}) for n in range(1, 3)] + [((3,) * n, {3: 0.0}) for n in range(1, 9)]
LATE_BEST = chain(((), {2: -4.0, 3: -4.5, 4: -0.03}), ((4,), {0: 0.0}), *LATE)


@pytest.mark.parametrize(
    ("length_penalty", "best", "n_steps"), [(0.0, [2] * 3, 4), (1.0, [3] * 9, 10)]
)
def test_stops_only_when_no_live_one_can_win(toy, length_penalty, best, n_steps):
    model = toy(LATE_BEST)
    (found,) = search(model, [0], [12], 4, length_penalty=length_penalty, banned=[4])
    assert found[0].ids == best
    assert len(model.sizes) == n_steps


def test_stops_as_soon_as_the_limit_keeps_the_live_ones_from_winning(toy):
    # At a limit of 5 tokens -4.5 cannot be divided by enough to beat -4 at 4 tokens.
    model = toy(LATE_BEST)
    (found,) = search(model, [0], [5], 4, length_penalty=0.6, banned=[4])
    assert (found[0].ids, len(model.sizes)) == ([2] * 3, 4)


def test_an_ended_hypothesis_comes_before_one_that_was_cut(toy):
    def logits(key, prefix):
        return torch.tensor([-9.0, -2.0, 0.0, -9.0]).log_softmax(0)

    (found,) = search(toy(logits), [0], [3], 4, n_best=4, length_penalty=0.0)
    assert [row.ended for row in found[:3]] == [True] * 3
    assert found[3] == Hypothesis([2, 2, 2], found[3].log_prob, found[3].score, ended=False)
    assert found[3].score > found[1].score
    (only,) = search(toy(logits), [0], [3], 1, length_penalty=0.0)
    assert [(row.ids, row.ended) for row in only] == [([2, 2, 2], False)]


def test_finished_rows_leave_the_batch_and_all_beams_share_a_step(toy):
    def counts_down(key, prefix):
        row = torch.zeros(6)
        row[EOS if len(prefix) >= key else 2] = 20.0
        return row

    model = toy(counts_down)
    found = search(model, [9, 2, 5], [30, 30, 30], 3, length_penalty=0.0)
    assert [(len(row.ids), row.ended) for (row,) in found] == [(9, True), (2, True), (5, True)]
    assert model.sizes == [3, 9, 9, 6, 6, 6, 3, 3, 3, 3]


def test_the_state_is_reordered_only_when_something_changes(toy):
    model = toy(n_tokens=6, eos=-50.0)
    search(model, [0, 1], [8, 8], 1)
    assert model.selected == []
    search(model, [0, 1], [8, 8], 3)
    assert model.selected[0] == [0, 0, 0, 1, 1, 1]
    assert len(model.selected) <= 7
    assert [0, 1, 2, 3, 4, 5] not in model.selected


def test_a_beam_wider_than_the_vocabulary(toy):
    model = toy(n_tokens=4, eos=1.0)
    for found in search(model, [0, 1, 2], [6, 1, 4], 50, n_best=20):
        assert found == sorted(found, key=lambda row: (not row.ended, -row.score))
        assert all(-100 < row.log_prob <= 0 for row in found)
    assert len(search(model, [1], [1], 50, n_best=20)[0]) == 4


def test_limit_zero_gives_one_empty_hypothesis(toy):
    model = toy(n_tokens=4)
    empty = [Hypothesis([], 0.0, 0.0, ended=False)]
    assert search(model, [0, 1], [0, 0], 3, n_best=2) == [empty, empty]
    assert search(model, [], [], 3) == []
    assert model.sizes == []
    mixed = search(model, [0, 1], [0, 4], 3)
    assert mixed == [empty, *search(model, [1], [4], 3)]


def test_impossible_tokens_are_never_part_of_a_hypothesis(toy):
    # After 2 only eos is possible; 3 leads nowhere, as 4 is banned; 0 is impossible at once.
    model = toy(chain(((), {2: -1.0, 3: -0.5}), ((2,), {EOS: 0.0}), ((3,), {4: 0.0})))
    (found,) = search(model, [0], [6], 4, n_best=4, banned=[4])
    assert [(row.ids, row.ended) for row in found] == [([2], True)]
    (cut,) = search(toy(chain(((), {3: 0.0}), ((3,), {4: 0.0}))), [0], [6], 4, n_best=4, banned=[4])
    assert [(row.ids, row.ended) for row in cut] == [([3], False)]
    (nothing,) = search(toy(n_tokens=4), [0], [6], 2, banned=[0, 1, 2, 3])
    assert nothing == [Hypothesis([], 0.0, 0.0, ended=False)]


def test_output_that_is_not_a_number_is_reported(toy):
    with pytest.raises(UserError, match="not a number"):
        search(toy(lambda key, prefix: torch.full((4,), torch.nan)), [0], [5], 2)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"width": 0}, "width"),
        ({"width": 2, "n_best": 3}, "n_best"),
        ({"width": 2, "n_best": 0}, "n_best"),
        ({"width": 2, "length_penalty": float("nan")}, "length_penalty"),
        ({"width": 2, "length_penalty": 11}, "length_penalty"),
    ],
)
def test_bad_settings_are_named(toy, settings, key):
    with pytest.raises(UserError) as error:
        search(toy(n_tokens=4), [0], [5], **settings)
    assert error.value.where == key
