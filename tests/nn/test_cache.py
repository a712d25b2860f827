"""A cache is a value: what is appended to it is written behind it, and changes nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.models.build import build_decoder
from headway.nn.attention import LEAST_ROOM, KeyValue
from headway.settings.model import DecoderSettings


def some(n: int, seed: int = 0) -> KeyValue:
    random = torch.Generator().manual_seed(seed)
    return KeyValue(*(torch.randn(2, 3, n, 4, generator=random) for _ in range(2)))


def same(keys: KeyValue, *parts: KeyValue) -> bool:
    wanted = [torch.cat([part[place] for part in parts], dim=2) for place in (0, 1)]
    return all(torch.equal(mine, right) for mine, right in zip(keys[:2], wanted, strict=True))


def test_what_is_appended_is_written_in_place_while_there_is_room() -> None:
    first, second, third = some(5), some(1, 1), some(2, 2)
    grown = first.append(second).append(second)
    further = grown.append(third)
    assert grown.key.data_ptr() == further.key.data_ptr() != first.key.data_ptr()
    assert same(grown, first, second, second)
    assert same(further, first, second, second, third)
    many = some(LEAST_ROOM, 3)
    whole = further.append(many)
    assert same(whole, first, second, second, third, many), "more than there was room for"


def test_two_ways_to_go_on_do_not_disturb_each_other() -> None:
    begin = some(5).append(some(1, 1)).append(some(1, 5))
    one, other = begin.append(some(1, 2)), begin.append(some(1, 3))
    assert same(one, begin, some(1, 2))
    assert same(other, begin, some(1, 3))
    assert same(one.append(some(1, 4)), one, some(1, 4))


def test_rows_that_are_chosen_have_a_cache_of_their_own() -> None:
    begin = some(5).append(some(1, 1)).append(some(1, 5))
    chosen = begin.select(torch.tensor([1, 1]))
    assert same(begin.append(some(1, 2)), begin, some(1, 2))
    assert same(begin.append(some(1, 4)), begin, some(1, 4))
    assert torch.equal(chosen.append(some(1, 3)).key[:, :, :7], chosen.key)


def test_no_room_is_made_for_one_step() -> None:
    """A beam chooses its rows anew after each."""
    begin = some(5).append(some(1, 1)).append(some(1, 5))
    assert begin.room is not None
    once = begin.select(torch.tensor([1, 0])).append(some(1, 2))
    assert once.room is None
    assert once.append(some(1, 3)).room is not None


def test_gradients_flow_through_what_is_appended() -> None:
    key = torch.randn(1, 1, 2, 4, requires_grad=True)
    grown = KeyValue(key, key).append(KeyValue(key, 2 * key))
    (grown.key.sum() + grown.value.sum()).backward()
    assert key.grad is not None
    assert key.grad.eq(5.0).all()


def test_a_state_may_be_gone_on_from_twice_and_in_any_mode() -> None:
    settings = DecoderSettings(
        d_model=16,
        d_feed_forward=24,
        n_heads=2,
        n_layers=2,
        max_length=32,
        positions="rotary",
    )
    model = build_decoder(settings, n_tokens=20, seed=1).eval()
    ids = torch.arange(8)[None]

    def logits(*after: int) -> Tensor:
        with torch.no_grad():
            found: Tensor = model(torch.cat((ids, torch.tensor([after])), dim=1))[:, -1]
            return found

    with torch.inference_mode():
        state = model.start(ids, torch.tensor([8]))
        _, state = model.step(torch.tensor([[3]]), state)
    with torch.no_grad():
        one, further = model.step(torch.tensor([[4]]), state)
        other, _ = model.step(torch.tensor([[5]]), state)
        more, _ = model.step(torch.tensor([[6]]), further)
    near = {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(one[:, -1], logits(3, 4), **near)
    torch.testing.assert_close(other[:, -1], logits(3, 5), **near)
    torch.testing.assert_close(more[:, -1], logits(3, 4, 6), **near)
