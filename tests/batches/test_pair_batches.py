"""Batches: within the budget, every row once an epoch, the same order from wherever one starts."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from headway.batches.pairs import SOURCE_STEP, EncodedPairs, EncodedSide, PairBatches, batch_rows

LENGTHS = some.lists(
    some.tuples(some.integers(1, 30), some.integers(1, 30)), min_size=1, max_size=60
)
SEEDS = some.integers(-(2**63), 2**63 - 1)
PAD, BOS, EOS = 0, 2, 3


def pairs_of(lengths: list[tuple[int, int]]) -> EncodedPairs:
    """Row i holds the ids 100·i, 100·i + 1, …"""
    sides = zip(*lengths, strict=True)
    return EncodedPairs(
        *(
            EncodedSide.of([[100 * row + t for t in range(n)] for row, n in enumerate(side)])
            for side in sides
        )
    )


def random_pairs(n: int = 50, longest: int = 11) -> EncodedPairs:
    random = np.random.default_rng(1)
    return pairs_of([(int(a), int(b)) for a, b in random.integers(1, longest + 1, (n, 2))])


def listed(order: PairBatches, epoch: int) -> list[list[int]]:
    return [rows.tolist() for rows in order.epoch(epoch)]


@given(LENGTHS, some.integers(1, 100), SEEDS)
@settings(deadline=None, max_examples=150)
def test_an_epoch_has_every_row_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int
) -> None:
    pairs = pairs_of(lengths)
    batches = PairBatches(pairs, budget, seed, pad=0, bos=2).epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        made = pairs.batch(rows, pad=PAD, bos=BOS)
        assert len(rows) > 0
        # a row beyond the budget stands alone
        assert len(rows) == 1 or max(made.source.numel(), made.target.numel()) <= budget


@given(LENGTHS, some.integers(1, 100))
@settings(deadline=None, max_examples=100)
def test_a_batch_ends_only_where_the_next_row_would_not_fit(
    lengths: list[tuple[int, int]], budget: int
) -> None:
    sources, targets = np.array(lengths).T
    batches = batch_rows(sources, targets, budget, np.arange(len(lengths)))
    for rows, after in pairwise(batches):
        grown = [*rows.tolist(), int(after[0])]
        widest = max(int(sources[grown].max()), int(targets[grown].max()))
        assert widest * len(grown) > budget


def test_like_lengths_stand_together() -> None:
    """Sorted by target, then by steps of source length; `order` decides within a step."""
    pairs = random_pairs(300)
    sources, targets = pairs.source.lengths, pairs.target.lengths
    for order in (np.arange(300), np.arange(300)[::-1]):
        rows = np.concatenate(batch_rows(sources, targets, 40, order))
        steps = (sources[rows] // SOURCE_STEP).tolist()
        assert steps != (sources[rows]).tolist()
        places = {row: place for place, row in enumerate(order.tolist())}
        keys = [
            (target, step, places[row])
            for target, step, row in zip(targets[rows].tolist(), steps, rows.tolist(), strict=True)
        ]
        assert keys == sorted(keys)
    assert not batch_rows(sources[:0], targets[:0], 40, np.arange(0))


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    pairs = random_pairs(100, longest=4)  # many rows of the same lengths
    made = {
        (seed, epoch): listed(PairBatches(pairs, 40, seed, pad=0, bos=2), epoch)
        for seed in (0, 1, -1)
        for epoch in (0, 1, 2)
    }
    for (seed, epoch), batches in made.items():
        np.random.seed(5)  # noqa: NPY002 - numpy's and torch's global state must not matter
        torch.manual_seed(5)
        before = torch.get_rng_state()
        assert listed(PairBatches(pairs, 40, seed, pad=0, bos=2), epoch) == batches
        assert torch.equal(torch.get_rng_state(), before)
    assert len({str(batches) for batches in made.values()}) == len(made)
    # rows meet other rows in another epoch, and batches do not come in order of length
    together = [{frozenset(batch) for batch in made[0, epoch]} for epoch in (0, 1)]
    assert len(together[0] & together[1]) < len(together[0]) / 2
    widths = [max(pairs.target.lengths[batch]) for batch in made[0, 0]]
    assert widths != sorted(widths)


def test_from_any_position_comes_the_rest_of_the_stream() -> None:
    """B4: (epoch, batch) as given with a batch is where to go on, across the edges of epochs."""
    order = PairBatches(random_pairs(), 40, 7, pad=0, bos=2)
    n = len(order.epoch(0))
    whole = list(islice(order.after(0, 0), 3 * n))
    expected = [rows for epoch in range(4) for rows in listed(order, epoch)]
    assert [rows.tolist() for _, _, rows in whole] == expected[: len(whole)]
    edges = 0
    for index, (epoch, batch, _) in enumerate(whole[: 2 * n]):
        edges += batch == len(order.epoch(epoch))
        for (_, _, rows), (_, _, others) in zip(
            order.after(epoch, batch), whole[index + 1 : index + 5], strict=False
        ):
            assert rows.tolist() == others.tolist()
    assert edges == 2


@pytest.mark.parametrize("pad", [0, EOS, 101])
def test_what_is_real_is_told_by_lengths_not_ids(pad: int) -> None:
    """B13: where the pad id is the end symbol, or occurs in the text, its label is kept."""
    pairs = EncodedPairs(
        EncodedSide.of([[101, 0, EOS], [EOS], [0, 0, 0, EOS]]),
        EncodedSide.of([[7, EOS], [101, 0, EOS], [EOS]]),
    )
    batch = pairs.batch(np.array([1, 0, 2]), pad=pad, bos=BOS)
    assert batch.source_real.tolist() == [[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert batch.target_real.tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    assert batch.source[batch.source_real].tolist() == [EOS, 101, 0, EOS, 0, 0, 0, EOS]
    assert batch.following[batch.target_real].tolist() == [101, 0, EOS, 7, EOS, EOS]
    assert set(batch.source[~batch.source_real].tolist()) == {pad}
    assert set(batch.following[~batch.target_real].tolist()) == {pad}


@given(LENGTHS)
@settings(deadline=None, max_examples=50)
def test_each_target_position_is_followed_by_the_next(lengths: list[tuple[int, int]]) -> None:
    pairs = pairs_of(lengths)
    rows = np.arange(len(lengths))[::-1].copy()
    batch = pairs.batch(rows, pad=PAD, bos=BOS)
    assert batch.target.dtype == batch.source.dtype == torch.int64
    for row, target, following, source in zip(
        rows, batch.target, batch.following, batch.source, strict=True
    ):
        n_source, n_target = lengths[row]
        assert source[:n_source].tolist() == [100 * row + t for t in range(n_source)]
        assert following[:n_target].tolist() == [100 * row + t for t in range(n_target)]
        assert target[:n_target].tolist() == [BOS, *following[: n_target - 1].tolist()]
    moved = batch.to(torch.device("meta"))
    assert {part.device.type for part in moved} == {"meta"}


def test_rows_may_be_empty() -> None:
    side = EncodedSide.of([[], [5], []])
    ids, real = side.pad(np.array([0, 2]), PAD)
    assert ids.shape == real.shape == (2, 0)
    ids, real = side.pad(np.array([2, 1]), PAD)
    assert (ids.tolist(), real.tolist()) == ([[PAD], [5]], [[False], [True]])
    assert len(EncodedSide.of([]).lengths) == 0
