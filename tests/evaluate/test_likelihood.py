from __future__ import annotations

import math

import pytest

from headway.evaluate.likelihood import Likelihood


def test_perplexity_is_of_all_tokens_not_of_the_mean_of_batches() -> None:
    total = Likelihood(2.0, 1, 1) + Likelihood(3.0, 9, 4)
    assert total == Likelihood(5.0, 10, 5)
    assert total.mean == pytest.approx(0.5)
    assert total.perplexity == pytest.approx(math.exp(0.5))
    assert total.token_accuracy == pytest.approx(50.0)
    assert sum([Likelihood(2.0, 1, 1), Likelihood(3.0, 9, 4)], Likelihood()) == total


def test_uniform_choice_among_v_tokens_has_perplexity_v() -> None:
    assert Likelihood(7 * math.log(50), 7, 0).perplexity == pytest.approx(50)


def test_no_tokens_and_hopeless_ones_do_not_raise() -> None:
    assert math.isnan(Likelihood().perplexity)
    assert math.isnan(Likelihood().token_accuracy)
    assert Likelihood(1e9, 1, 0).perplexity == math.inf
