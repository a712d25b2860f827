"""Guesses save steps and change nothing: the same tokens, or tokens of the same distribution."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from headway.base.errors import UserError
from headway.decode.request import Request, Ticket
from headway.decode.sampling import Draw
from headway.decode.speculative import Guess, LookUp, Smaller, judge, speculate

EOS = 1


def request(ids=(3, 4), limit=24, **more):
    return Request(ids=ids, limit=limit, ends=(EOS,), **more)


def same(model):
    """A draft that is the model itself."""
    return Smaller(model, model.n_tokens, 1000)


class Stubborn:
    """Guesses the same tokens, whatever is said."""

    def __init__(self, *ids):
        self.ids = list(ids)

    def guess(self, ids, n, ticket):
        return Guess(self.ids[:n])


def drafts(serving):
    return {
        "same": lambda model: same(model),
        "other": lambda model: Smaller(serving(seed=9), 9, 1000),
        "more tokens": lambda model: Smaller(serving(n_tokens=12, seed=0), 9, 1000),
        "fewer tokens": lambda model: Smaller(serving(n_tokens=7, seed=0), 9, 1000),
        "short of breath": lambda model: Smaller(model, 9, 12),
        "lookup": lambda model: LookUp(),
        "stubborn": lambda model: Stubborn(2, 2, 2, 2),
        "mute": lambda model: Stubborn(),
    }


NAMES = list(drafts(None))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [{}, {"repetition_penalty": 3.0}], ids=["plain", "penalty"])
@pytest.mark.parametrize("eos", [-50.0, 1.0], ids=["to the limit", "to an end"])
def test_the_likeliest_tokens_are_the_same(alone, serving, name, more, eos):
    for seed, limit in itertools.product(range(3), (0, 1, 2, 24)):
        model = serving(seed=seed, eos=eos)
        asked = request((3, 4, 5, 3, 4), limit, **more)
        ticket, told = speculate(model, asked, drafts(serving)[name](model))
        wanted, found = alone(model, asked), ticket.result()
        assert (found.ids, found.ended) == (wanted.ids, wanted.ended)
        assert found.log_prob == pytest.approx(wanted.log_prob, abs=1e-4)
        assert told.accepted <= told.guessed


def test_right_guesses_save_steps(serving):
    model, draft = serving(eos=-50.0), serving(eos=-50.0)
    ticket, told = speculate(model, request(limit=40), Smaller(draft, 9, 1000))
    assert len(ticket.ids) == 40
    assert told.guessed == told.accepted
    assert len(model.step_sizes) == 40 - told.accepted
    assert len(model.step_sizes) < 8
    wrong = Stubborn(0, 0, 0, 0)
    text = [*ticket.request.ids, *ticket.ids]
    model.step_sizes.clear()
    _, told = speculate(model, request(limit=40), wrong)
    assert len(model.step_sizes) == 40 - told.accepted
    assert told.accepted == text.count(0)
    assert told.guessed < 60  # of 4 a step: it was asked for fewer


def test_a_text_in_circles_is_looked_up(serving):
    def logits(key, text):
        row = torch.zeros(9)
        row[2 + (text[-1] - 1) % 7] = 5.0
        return row

    model = serving(logits)
    ticket, told = speculate(model, request((2,), 60), LookUp())
    assert ticket.ids == [2 + n % 7 for n in range(1, 61)]
    assert told.accepted > 40
    assert len(model.step_sizes) == 60 - told.accepted


def test_what_is_looked_up_is_what_stood_there_last():
    draft, ticket = LookUp(), None
    text = [1, 2, 3, 4, 9, 2, 3, 5, 6, 7, 2, 3]
    assert draft.guess(text, 3, ticket).ids == [5, 6, 7]
    assert draft.guess([*text, 4], 2, ticket).ids == [9, 2]  # three tokens rather than two
    assert draft.guess([*text, 4, 8], 4, ticket).ids == []
    assert draft.guess([*text, 4, 8, 2, 3], 9, ticket).ids == [4, 8, 2, 3]
    assert LookUp().guess([5], 4, ticket).ids == []
    assert LookUp().guess([5, 5, 5], 4, ticket).ids == [5]


P = torch.tensor([0.05, 0.1, 0.0, 0.55, 0.3])
Q = torch.tensor([0.4, 0.1, 0.2, 0.0, 0.3])


@pytest.mark.parametrize("odds", [Q, P, None], ids=["drawn", "drawn from the same", "certain"])
@pytest.mark.parametrize("draw", [Draw(), Draw(0.6, top_k=4, top_p=0.97)], ids=["plain", "shaped"])
def test_a_judged_token_has_the_models_distribution(odds, draw):
    """Four standard deviations of a binomial, for each token."""
    n = 3000
    logits = P.log().expand(2, 5)
    wanted = draw.probabilities(logits[:1])[0]
    counts, accepted = torch.zeros(5), 0
    generator = torch.Generator().manual_seed(7)
    for seed in range(n):
        ticket = Ticket(request(limit=2, draw=draw, seed=seed), 5, torch.device("cpu"))
        guessed = 4 if odds is None else int(torch.multinomial(odds, 1, generator=generator))
        guess = Guess([guessed], None if odds is None else odds[None])
        accepted += judge(logits, guess, ticket)
        first = EOS if not ticket.ids else ticket.ids[0]
        counts[first] += 1
    for count, share in zip(counts.tolist(), wanted.tolist(), strict=True):
        assert abs(count - n * share) <= 4 * math.sqrt(n * share * (1 - share))
    certain = torch.nn.functional.one_hot(torch.tensor(4), 5) if odds is None else odds
    share = float(torch.minimum(wanted, certain).sum())  # section 3.3 of the paper
    assert abs(accepted - n * share) <= 4 * math.sqrt(n * share * (1 - share)) + 1e-3 * n


def test_drawn_texts_have_the_models_distribution(serving):
    """Three tokens of three; the other model would draw quite others."""
    n, model, draft = 1500, serving(n_tokens=4, eos=-50.0), serving(n_tokens=4, seed=3, eos=-50.0)
    found: dict[tuple[int, ...], int] = {}
    guessed = accepted = 0
    for seed in range(n):
        asked = request((3,), 3, draw=Draw(), seed=seed)
        ticket, told = speculate(model, asked, Smaller(draft, 4, 1000))
        found[tuple(ticket.ids)] = found.get(tuple(ticket.ids), 0) + 1
        guessed, accepted = guessed + told.guessed, accepted + told.accepted
    distance = 0.0
    for ids in itertools.product((0, 2, 3), repeat=3):
        share = math.prod(
            float(model.logits(0, (3, *ids[:place])).softmax(0)[token])
            for place, token in enumerate(ids)
        )
        distance += (found.get(ids, 0) - n * share) ** 2 / (n * share)
    assert distance < 26 + 4 * math.sqrt(2 * 26)  # chi-square of 26 degrees of freedom
    assert 0.1 * guessed < accepted < 0.9 * guessed


def test_the_same_seed_draws_the_same(serving):
    model = serving(eos=-50.0)
    asked = [request(draw=Draw(1.5), seed=seed, limit=12) for seed in (1, 1, 2)]
    one, again, other = (speculate(model, each, same(model))[0].ids for each in asked)
    assert one == again != other


def test_what_goes_wrong_is_told(serving):
    model = serving(lambda key, text: torch.full((9,), torch.nan))
    for more in ({}, {"draw": Draw()}):
        ticket, _ = speculate(model, request(**more), Stubborn(2))
        with pytest.raises(UserError, match="output is not a number"):
            ticket.result()
