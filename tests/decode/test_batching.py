"""Requests join and leave a running batch; each gives what it gives alone."""

from __future__ import annotations

import random

import pytest
import torch

from headway.base.errors import UserError
from headway.decode import batching
from headway.decode.batching import Batcher
from headway.decode.greedy import greedy
from headway.decode.request import Request
from headway.decode.sampling import Draw, sample

BOS, EOS = 0, 1


def request(ids=(3, 4), limit=8, **more):
    return Request(ids=ids, limit=limit, ends=(EOS,), **more)


def mixed(n, seed):
    """Requests of every kind: short, long, greedy, drawn, with a penalty, with a stop."""
    chance, found = random.Random(seed), []
    for number in range(n):
        ids = [chance.randrange(2, 9) for _ in range(chance.choice([1, 1, 2, 5, 9, 30]))]
        found.append(
            request(
                ids,
                chance.choice([0, 1, 3, 12, 25]),
                draw=chance.choice([None, None, Draw(1.5), Draw(0.7, top_k=4), Draw(top_p=0.8)]),
                seed=number,
                repetition_penalty=chance.choice([1.0, 1.0, 3.0]),
                until=chance.choice([None, lambda token: token == 7]),
            )
        )
    return found


def test_alone_it_is_what_greedy_and_sample_give(alone, serving, toy):
    model, prompt = serving(eos=0.5), (5, 2, 8)
    plain = toy(lambda key, prefix: model.logits(0, (*prompt, *prefix)))
    ways = {"bos": BOS, "eos": EOS, "limits": [20]}
    (wanted,) = greedy(plain, plain.of(0), rows=1, **ways)
    assert alone(model, request(prompt, 20)) == wanted
    (wanted,) = sample(plain, plain.of(0), seeds=[4], temperature=1.3, top_k=6, top_p=0.9, **ways)
    assert alone(model, request(prompt, 20, draw=Draw(1.3, 6, 0.9), seed=4)) == wanted


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("memory", [60, 150, 5000])
def test_whoever_comes_when_each_is_as_alone(alone, serving, monkeypatch, seed, memory):
    monkeypatch.setattr(batching, "_SHORT", 8)
    monkeypatch.setattr(batching, "PIECE", 12)
    monkeypatch.setattr(batching, "ROUND", 4)
    model, chance = serving(eos=-1.0), random.Random(seed)
    asked = mixed(14, seed)
    wanted = [alone(model, each) for each in asked]
    batcher, tickets, waiting = Batcher(model, memory=memory), [], list(asked)
    while waiting or not all(ticket.done for ticket in tickets):
        while waiting and chance.random() < 0.4:
            tickets.append(batcher.submit(waiting.pop(0)))
        batcher.step()
        assert batcher.held <= memory
    assert [ticket.result() for ticket in tickets] == wanted
    assert not batcher.step()


def test_many_go_on_together_and_those_that_end_leave(serving):
    model = serving(eos=-50.0)
    batcher = Batcher(model, memory=1000)
    for limit in (3, 9, 5, 9):
        batcher.submit(request(limit=limit))
    batcher.run()
    assert [n for n, _ in model.step_sizes] == [4] * 3 + [3] * 2 + [2] * 4


def test_prompts_that_come_together_are_read_together(serving):
    model = serving()
    batcher = Batcher(model, memory=1000)
    for n in (5, 9, 2, 1):
        batcher.submit(request([3] * n))
    batcher.step()
    assert model.read_sizes == [(4, 8)]


def test_a_long_prompt_is_read_in_large_pieces_while_nobody_waits(serving):
    model = serving()
    batcher = Batcher(model, memory=1000)
    batcher.submit(request([3] * 600))
    batcher.run()
    assert model.read_sizes == [(1, 512), (1, 87)]


def test_a_long_prompt_keeps_nobody_waiting(serving, monkeypatch):
    monkeypatch.setattr(batching, "_SHORT", 8)
    model = serving(eos=-50.0)
    batcher = Batcher(model, memory=1000)
    first = batcher.submit(request(limit=20))
    batcher.step()
    second = batcher.submit(request([3] * 60))
    for step in range(2, 9):
        batcher.step()
        assert len(first.ids) == step
        assert not second.ids
    batcher.step()
    assert len(second.ids) == 1
    assert model.read_sizes[1:] == [(1, 8)] * 7 + [(1, 3)]


def test_a_request_waits_for_room_and_nobody_overtakes_it(serving, monkeypatch):
    monkeypatch.setattr(batching, "ROUND", 1)
    model = serving(eos=-50.0)
    batcher = Batcher(model, memory=40)
    running = [batcher.submit(request(limit=limit)) for limit in (4, 8)]
    batcher.step()
    large, small = batcher.submit(request([3] * 20, 15)), batcher.submit(request(limit=1))
    while not all(ticket.done for ticket in running):
        assert not large.ids
        assert not small.done
        batcher.step()
    batcher.run()
    assert len(large.ids) == 15
    assert small.done


def test_what_can_never_fit_is_refused_at_once(serving):
    batcher = Batcher(serving(), memory=40)
    with pytest.raises(UserError, match=r"30 tokens and 12 new ones need room for 41; .* for 40"):
        batcher.submit(request([3] * 30, 12))
    batcher.submit(request([3] * 30, 11))
    with pytest.raises(UserError, match="0 tokens of memory"):
        Batcher(serving(), memory=0)


@pytest.mark.parametrize("when", ["waiting", "being read", "being answered"])
def test_who_takes_it_back_leaves_and_the_others_notice_nothing(alone, serving, monkeypatch, when):
    monkeypatch.setattr(batching, "_SHORT", 8)
    model = serving(eos=-50.0)
    others = [request(limit=12), request([5, 6, 7], 12, draw=Draw(), seed=3)]
    wanted = [alone(model, each) for each in others]
    batcher = Batcher(model, memory=1000)
    tickets = [batcher.submit(others[0])]
    batcher.step()
    unwanted = batcher.submit(request([4] * 30, 50))
    tickets.append(batcher.submit(others[1]))
    for _ in range({"waiting": 0, "being read": 2, "being answered": 7}[when]):
        batcher.step()
    unwanted.cancel()
    batcher.run()
    assert [ticket.result() for ticket in tickets] == wanted
    assert (unwanted.done, unwanted.cancelled) == (True, True)
    assert len(unwanted.ids) == {"being answered": 4}.get(when, 0)
    assert batcher._slots.lengths == []


def test_what_goes_wrong_with_one_spoils_no_other(alone, serving):
    known = serving(eos=-50.0)

    def logits(key, text):
        return known.logits(key, text) * (torch.nan if text[0] == 8 else 1.0)

    def until(token):
        raise ConnectionError("nobody listens")

    model = serving(logits)
    good = [request(limit=12), request([5], 12, draw=Draw(), seed=3)]
    wanted = [alone(model, each) for each in good]
    batcher = Batcher(model, memory=1000)
    broken = [request([8], 5), request([8], 5, draw=Draw()), request([4], 5, until=until)]
    tickets = [batcher.submit(each) for each in (good[0], *broken, good[1])]
    batcher.run()
    assert [tickets[0].result(), tickets[-1].result()] == wanted
    for ticket in tickets[1:3]:
        with pytest.raises(UserError, match="output is not a number"):
            ticket.result()
    with pytest.raises(ConnectionError):
        tickets[3].result()


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"limit": -1}, "limits"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"seed": -1}, "seeds"),
    ],
)
def test_bad_settings_are_named_when_they_come(serving, settings, where):
    with pytest.raises(UserError) as error:
        Batcher(serving(), memory=100).submit(request(**settings))
    assert error.value.where == where
