"""Sampling: what is drawn from, and that a row's draws are its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.decode.greedy import greedy
from headway.decode.sampling import largest, pick, sample, with_min_p, with_temperature, with_top_p
from headway.decode.steps import NEVER

BOS, EOS = 0, 1
PROBS = torch.tensor([[0.15, 0.5, 0.05, 0.3]])


def draw(model, keys, seeds, limits, **more):
    return sample(model, model.of(*keys), seeds=seeds, bos=BOS, eos=EOS, limits=limits, **more)


def kept(logits):
    return (logits > -torch.inf).nonzero()[:, 1].tolist()


def test_temperature_divides_the_logits():
    for temperature in (0.5, 1.0, 3.0):
        warm = with_temperature(PROBS.log(), temperature).softmax(-1)
        expected = PROBS ** (1 / temperature)
        torch.testing.assert_close(warm, expected / expected.sum())


def test_the_coldest_and_the_hottest_have_room():
    assert with_temperature(PROBS.log(), 1e-6).softmax(-1).tolist() == [[0.0, 1.0, 0.0, 0.0]]
    logits = torch.tensor([[-torch.inf, 0.0, -90.0]])
    torch.testing.assert_close(
        with_temperature(logits, 1e6).softmax(-1),
        torch.tensor([[0.0, 0.5, 0.5]]),
        atol=1e-4,
        rtol=0,
    )


@pytest.mark.parametrize(("k", "expected"), [(1, [1]), (2, [1, 3]), (3, [1, 3, 0])])
def test_top_k_gives_the_k_likeliest(k, expected):
    logits, ids = largest(PROBS.log(), k)
    assert ids.tolist() == [expected]
    assert torch.equal(logits, PROBS.log()[:, expected])


@pytest.mark.parametrize("k", [0, 4, 9])
def test_top_k_of_all_changes_nothing(k):
    logits, ids = largest(PROBS.log(), k)
    assert torch.equal(logits, PROBS.log())
    assert ids.tolist() == [[0, 1, 2, 3]]


def test_top_k_gives_no_more_than_k_of_equals(toy):
    assert largest(torch.zeros(1, 6), 2)[0].shape == (1, 2)
    found = draw(toy(lambda key, prefix: torch.zeros(6)), [0] * 200, range(200), [1] * 200, top_k=2)
    assert len({tuple(row.ids) for row in found}) == 2


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (1e-320, [1]),
        (1e-9, [1]),
        (0.49, [1]),
        (0.5, [1]),
        (0.51, [1, 3]),
        (0.9, [0, 1, 3]),
        (0.96, [0, 1, 2, 3]),
        (1, [0, 1, 2, 3]),
    ],
)
def test_top_p_keeps_the_smallest_set_that_reaches_p(p, expected):
    logits = with_top_p(PROBS.log(), p)
    assert kept(logits) == expected
    assert torch.equal(logits[:, expected], PROBS.log()[:, expected])


def test_top_p_works_row_by_row():
    rows = torch.cat([PROBS, torch.full((1, 4), 0.25)]).log()
    assert (with_top_p(rows, 0.6) > -torch.inf).sum(-1).tolist() == [2, 3]


@pytest.mark.parametrize(("p", "n"), [(0.0, 4), (0.11, 3), (0.59, 2), (0.61, 1), (1.0, 1)])
def test_min_p_keeps_what_is_not_far_less_likely_than_the_likeliest(p, n):
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log() + 3.0  # whatever their scale
    assert (with_min_p(logits, p) > -torch.inf).tolist() == [[place < n for place in range(4)]]


def test_pick_inverts_the_distribution_function():
    logits = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]]).log().expand(6, 5)
    draws = torch.tensor([0.0, 0.2, 0.26, 0.5, 0.99, 1 - 2**-24])
    assert pick(logits, draws).tolist() == [1, 1, 3, 3, 3, 3]


def test_pick_never_takes_the_impossible_where_the_running_sum_wobbles(monkeypatch):
    wobbling = torch.tensor([[1e-7, 0.5, 0.5 + 1e-7, 1.0, 1.0 + 1e-7]])
    monkeypatch.setattr(Tensor, "cumsum", lambda probs, dim: wobbling.expand_as(probs))
    logits = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).log().expand(3, 5)
    assert pick(logits, torch.tensor([0.0, 0.5, 1 - 2**-24])).tolist() == [1, 3, 3]


def test_pick_takes_what_is_not_a_number():
    """Not token 0, which is banned: the row would end as if nothing were wrong."""
    logits = torch.tensor([[NEVER, torch.nan, torch.nan], [0.0, 1.0, 2.0]])
    assert pick(logits, torch.tensor([0.5, 0.99])).tolist() == [1, 2]


def test_tokens_come_as_often_as_they_are_likely(toy):
    model = toy(lambda key, prefix: torch.tensor([0.0, 0.2, 0.5, 0.3]).log())
    found = draw(model, [0] * 4000, range(4000), [1] * 4000)
    counts = [sum(row.ids == [token] for row in found) for token in (0, 2, 3)]
    ended = sum(row.ended for row in found)
    # Four standard deviations of a binomial.
    assert counts[0] == 0
    assert abs(ended - 800) < 102
    assert abs(counts[1] - 2000) < 127
    assert abs(counts[2] - 1200) < 116


def test_a_row_is_the_same_alone_in_any_batch_and_in_any_order(toy):
    model = toy(n_tokens=9)
    keys, seeds, limits = [4, 0, 4, 2, 7, 4], [5, 5, 6, 0, 2**63 - 1, 5], [20, 9, 20, 0, 7, 20]
    more = {"temperature": 1.5, "top_k": 7, "top_p": 0.95}
    together = draw(model, keys, seeds, limits, **more)
    backwards = draw(model, keys[::-1], seeds[::-1], limits[::-1], **more)[::-1]
    alone = [
        draw(model, [key], [seed], [limit], **more)[0]
        for key, seed, limit in zip(keys, seeds, limits, strict=True)
    ]
    assert together == alone == backwards
    assert together[0] == together[5]
    assert together[0] != together[2]


def test_a_higher_limit_only_goes_on(toy):
    model = toy(n_tokens=9, eos=-50.0)
    (short,), (long,) = draw(model, [0], [3], [5]), draw(model, [0], [3], [40])
    assert long.ids[:5] == short.ids


def test_finished_rows_leave_the_batch(toy):
    model = toy(n_tokens=5, eos=1.0)
    found = draw(model, [0] * 9, range(9), [30] * 9)
    n_steps = [len(row.ids) + row.ended for row in found]
    assert model.sizes == [sum(n > step for n in n_steps) for step in range(max(n_steps))]
    assert len(set(n_steps)) > 3


def test_log_prob_is_the_models_own_whatever_is_drawn_from(toy):
    model = toy(n_tokens=9)
    found = draw(
        model, range(8), range(8), [15] * 8, temperature=0.4, top_k=5, top_p=0.9, banned=[0]
    )
    for key, row in enumerate(found):
        tokens = [*row.ids, EOS] if row.ended else row.ids
        assert 0 not in tokens
        assert row.log_prob == pytest.approx(model.rescore(key, tokens), abs=1e-4)
        assert row.score == row.log_prob


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}])
def test_the_narrowest_settings_are_greedy(toy, settings):
    model = toy(n_tokens=9)
    found = draw(model, range(8), range(8), [15] * 8, **settings)
    expected = greedy(model, model.of(*range(8)), rows=8, bos=BOS, eos=EOS, limits=[15] * 8)
    assert found == expected


def test_a_row_stops_where_nothing_can_follow(toy):
    model = toy(n_tokens=3)
    for settings in ({}, {"top_k": 2}, {"top_p": 0.5}):
        (found,) = draw(model, [0], [0], [5], banned=[0, 1, 2], **settings)
        assert (found.ids, found.log_prob, found.ended) == ([], 0.0, False)


def test_the_global_generator_is_left_alone(toy):
    before = torch.get_rng_state()
    draw(toy(n_tokens=5), [0, 1], [0, 1], [9, 9])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": 1e-7}, "temperature"),
        ({"temperature": 1e39}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": float("nan")}, "top_p"),
        ({"min_p": 1.1}, "min_p"),
        ({"min_p": float("nan")}, "min_p"),
        ({"seeds": [-1]}, "seeds"),
        ({"seeds": [2**64]}, "seeds"),
    ],
)
def test_bad_settings_are_named(toy, settings, key):
    seeds = settings.pop("seeds", [0]) if "seeds" in settings else [0]
    with pytest.raises(UserError) as error:
        draw(toy(n_tokens=4), [0], seeds, [5], **settings)
    assert error.value.where == key
