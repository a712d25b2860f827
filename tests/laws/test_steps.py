"""Steps with a cache give what one pass gives, in any chunks and after any reordering of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.models.encoder_decoder import EncoderDecoder

Model = EncoderDecoder[Any, Any]
B, S, T, VOCABULARY = 3, 6, 7, 17
LENGTHS = torch.tensor([6, 2, 4])
REAL = torch.arange(S) < LENGTHS[:, None]


def ids(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(0, VOCABULARY, (B, S), generator=generator)
    return source, torch.randint(0, VOCABULARY, (B, T), generator=generator)


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def in_chunks(model: Model, source: Tensor, target: Tensor, sizes: list[int]) -> Tensor:
    state, found = model.start(source, LENGTHS), []
    for chunk in target.split(sizes, dim=1):
        logits, state = model.step(chunk, state)
        found.append(logits)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("sizes", [[1] * T, [3, 4], [2, 2, 2, 1], [6, 1], [T], [1, 5, 1]])
@torch.no_grad()
def test_steps_equal_one_pass(model: Model, sizes: list[int]) -> None:
    source, target = ids()
    close(in_chunks(model, source, target, sizes), model(source, REAL, target))


@torch.no_grad()
def test_a_state_is_a_value(model: Model) -> None:
    """Stepping from a state twice gives the same twice: a search may go back to it."""
    source, target = ids()
    _, state = model.step(target[:, :3], model.start(source, LENGTHS))
    first, _ = model.step(target[:, 3:4], state)
    model.step(target[:, 4:6], state)
    again, after = model.step(target[:, 3:4], state)
    assert torch.equal(again, first)
    close(model.step(target[:, 4:5], after)[0], model(source, REAL, target)[:, 4:5])


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 2, 2], [0], [2, 2]])
@pytest.mark.parametrize("read", [0, 3])
@torch.no_grad()
def test_selected_rows_go_on_as_the_reordered_batch(
    model: Model, rows: list[int], read: int
) -> None:
    source, target = ids()
    order = torch.tensor(rows)
    state = model.start(source, LENGTHS)
    if read:
        _, state = model.step(target[:, :read], state)
    found, state = model.step(target[order, read : read + 1], state.select(order))
    wanted = model(source[order], REAL[order], target[order])
    close(found, wanted[:, read : read + 1])
    close(model.step(target[order, read + 1 :], state)[0], wanted[:, read + 1 :])


@torch.no_grad()
def test_selecting_leaves_the_state_that_it_was_taken_from(model: Model) -> None:
    source, target = ids()
    _, state = model.step(target[:, :2], model.start(source, LENGTHS))
    before, _ = model.step(target[:, 2:3], state)
    state.select(torch.tensor([2, 2, 2]))
    assert torch.equal(model.step(target[:, 2:3], state)[0], before)


@torch.no_grad()
def test_logits_are_the_head_of_what_decode_gives(model: Model) -> None:
    source, target = ids()
    hidden = model.decode(target, model.encode(source, REAL))
    assert hidden.shape == (B, T, model.head.in_features)
    close(model.head(hidden), model(source, REAL, target))
    picked = REAL.flatten()[: B * T]  # logits of some tokens only
    rows = hidden.flatten(0, 1)[: len(picked)][picked]
    close(model.head(rows), model(source, REAL, target).flatten(0, 1)[: len(picked)][picked])


@pytest.mark.parametrize(
    "orders",
    [
        [[0, 0, 1, 1, 2, 2], [1, 0, 2, 3, 5, 5], [4, 5, 0, 1], [1, 1, 3, 2]],  # beams of two
        [[0, 0, 0, 2, 2, 2], [0, 1, 3, 4], [2, 3], [1]],  # a source leaves, beams shrink
        [[0, 0, 1, 2, 2, 2], [5, 1, 2, 0, 3, 3]],  # beams of unequal numbers
        [[1, 1, 1, 1], [0, 3, 2, 1], [0, 0], [1, 0]],  # one source is left
        [[0, 1, 2, 0, 1, 2], [3, 0, 4, 1, 5, 2], [0, 1, 2, 3]],  # not source by source
    ],
)
@pytest.mark.parametrize("before", [False, True])
@torch.no_grad()
def test_hypotheses_of_a_source_give_what_each_gives_alone(
    model: Model, orders: list[list[int]], before: bool
) -> None:
    """Trap D5: every hypothesis keeps its own source and its own past, however they are chosen."""
    source, _ = ids()
    state = model.start(source, LENGTHS)
    entries = [(row, [row]) for row in range(B)]  # of which source, and its tokens
    if before:  # chosen before anything is read
        rows = orders[0]
        state, entries = state.select(torch.tensor(rows)), [entries[row] for row in rows]
        orders = orders[1:]
    for step, order in enumerate([*orders, []]):
        last = torch.tensor([[tokens[-1]] for _, tokens in entries])
        logits, state = model.step(last, state)
        for (row, tokens), found in zip(entries, logits[:, -1], strict=True):
            alone = model(source[row : row + 1], REAL[row : row + 1], torch.tensor([tokens]))
            close(found, alone[0, -1])
        if order:
            state = state.select(torch.tensor(order))
            entries = [
                (entries[row][0], [*entries[row][1], (row * 5 + place + step) % VOCABULARY])
                for place, row in enumerate(order)
            ]
