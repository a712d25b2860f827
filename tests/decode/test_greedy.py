"""Greedy decoding: one path a row, each row on its own."""

from __future__ import annotations

import pytest
import torch

from headway.base.errors import UserError
from headway.decode.greedy import greedy
from headway.decode.steps import Hypothesis, home

BOS, EOS = 0, 1


def decode(model, keys, limits, **more):
    return greedy(model, model.of(*keys), rows=len(keys), bos=BOS, eos=EOS, limits=limits, **more)


def counts_down(key, prefix):
    """Says token 2 `key` times, then eos."""
    row = torch.zeros(4)
    row[EOS if len(prefix) >= key else 2] = 3.0
    return row


def test_takes_the_likeliest_token_and_sums_its_log_probabilities(toy):
    model = toy(n_tokens=9, eos=1.0)
    for key, found in enumerate(decode(model, range(6), [12] * 6)):
        tokens = [*found.ids, EOS] if found.ended else found.ids
        for n, token in enumerate(tokens):
            assert int(model.logits(key, tuple(tokens[:n])).argmax()) == token
        assert found.log_prob == pytest.approx(model.rescore(key, tokens), abs=1e-5)
        assert found.score == found.log_prob


def test_rows_end_at_steps_of_their_own_and_leave_the_batch(toy):
    model = toy(counts_down)
    found = decode(model, [8, 1, 4, 20], [15, 15, 15, 6])
    assert [len(row.ids) for row in found] == [8, 1, 4, 6]
    assert [row.ended for row in found] == [True, True, True, False]
    assert model.sizes == [4, 4, 3, 3, 3, 2, 1, 1, 1]
    assert model.selected == [[0, 2, 3], [0, 2], [0]]


def test_the_limit_counts_the_eos(toy):
    short, exact = decode(toy(counts_down), [3, 3], [3, 4])
    assert (len(short.ids), short.ended) == (3, False)
    assert (len(exact.ids), exact.ended) == (3, True)


def test_a_row_is_the_same_alone_in_any_batch_and_in_any_order(toy):
    model = toy(n_tokens=11, eos=1.0)
    keys, limits = [4, 0, 9, 2, 7, 7, 5], [20, 1, 0, 5, 20, 3, 40]
    together = decode(model, keys, limits)
    alone = [decode(model, [key], [limit])[0] for key, limit in zip(keys, limits, strict=True)]
    backwards = decode(model, keys[::-1], limits[::-1])[::-1]
    assert together == alone == backwards
    assert len({len(row.ids) for row in together}) > 3


def test_limit_zero_and_no_rows_ask_nothing_of_the_model(toy):
    model = toy(counts_down)
    assert decode(model, [3, 3], [0, 0]) == [Hypothesis([], 0.0, 0.0, ended=False)] * 2
    assert decode(model, [], []) == []
    assert model.sizes == []


def test_banned_tokens_are_left_out_without_changing_the_others(toy):
    model = toy(n_tokens=5, eos=-9.0)
    (free,) = decode(model, [3], [10])
    banned = sorted(set(free.ids))[:2]
    (found,) = decode(model, [3], [10], banned=banned)
    assert not set(banned) & set(found.ids)
    assert found.log_prob == pytest.approx(model.rescore(3, found.ids), abs=1e-5)


def test_a_row_stops_where_nothing_can_follow(toy):
    def dead_end(key, prefix):
        never = -torch.inf
        return torch.tensor([0.0, 0.0, 1.0, 0.0] if len(prefix) < key else [0.0, *[never] * 3])

    found = decode(toy(dead_end), [2, 9], [5, 5], banned=[BOS])
    assert [len(row.ids) for row in found] == [2, 5]
    assert not any(row.ended for row in found)
    assert all(row.log_prob > -20 for row in found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_log_probabilities_are_float32_whatever_the_logits(toy, dtype):
    exact = toy(n_tokens=50, eos=-9.0)
    model = toy(lambda key, prefix: exact.logits(key, prefix).to(dtype))
    (found,) = decode(model, [0], [20])
    assert found.log_prob == pytest.approx(model.rescore(0, found.ids), abs=2e-5)


def test_output_that_is_not_a_number_is_reported(toy):
    with pytest.raises(UserError, match="not a number"):
        decode(toy(lambda key, prefix: torch.full((4,), torch.nan)), [0], [5])


def test_limits_are_checked(toy):
    with pytest.raises(UserError, match="limits"):
        decode(toy(counts_down), [1, 1], [3, -1])
    with pytest.raises(ValueError, match="2 rows, but 1 limits"):
        decode(toy(counts_down), [1, 1], [3])


def test_ids_go_where_the_parameters_are(toy):
    assert home(torch.nn.Linear(1, 1, device="meta")) == torch.device("meta")
    assert home(toy(counts_down)) == torch.device("cpu")
