"""What is hidden of a row: how much, of what, as what; and batches of such rows."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.batches.masked import MaskedBatch, MaskedBatches, Masking, Vocabulary, fixed_batches
from headway.batches.order import generator
from headway.batches.pairs import EncodedSide
from headway.batches.sentences import SentenceRows, marked

PAD, UNK, START, END, MASK = 0, 1, 2, 3, 4
V = 2000
SPECIAL = np.arange(V) < 5
BEGINS = np.arange(V) % 3 != 0  # every third id goes on with a word
WORDS = Vocabulary(START, END, PAD, MASK, SPECIAL, BEGINS, np.arange(5, V))


def hidden(ids: list[int], *, rate: float = 0.15, whole: bool = False, seed: int = 1) -> tuple:
    row = np.array([START, *ids, END])
    shown, chosen = Masking(WORDS, rate, whole).hide(row, generator(seed))
    assert np.array_equal(shown[~chosen], row[~chosen])
    return row, shown, chosen


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40), st.integers(0, 99), st.booleans())
def test_special_tokens_are_never_chosen_and_one_at_least_is(
    ids: list[int], seed: int, whole: bool
) -> None:
    row, shown, chosen = hidden(ids, seed=seed, whole=whole)
    assert not SPECIAL[row[chosen]].any()
    assert chosen.any() == any(id > 4 for id in ids)
    assert set(shown[chosen].tolist()) & {PAD, UNK, START, END} == set()


def test_rates_are_those_of_bert() -> None:
    random = np.random.Generator(np.random.PCG64(5))
    counts = np.zeros(4)
    for seed in range(400):
        row, shown, chosen = hidden(random.integers(5, V, 100).tolist(), seed=seed)
        assert chosen.sum() == 15
        was, now = row[chosen], shown[chosen]
        counts += [len(was), (now == MASK).sum(), (now == was).sum(), 0]
        counts[3] += ((now != MASK) & (now != was)).sum()
    masked, same, other = counts[1:] / counts[0]
    assert masked == pytest.approx(0.8, abs=0.02)
    assert same == pytest.approx(0.1, abs=0.015)
    assert other == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize(("n", "wanted"), [(1, 1), (3, 1), (10, 2), (20, 3), (200, 30)])
def test_fifteen_percent_and_one_at_least(n: int, wanted: int) -> None:
    assert hidden([7] * n)[2].sum() == wanted


def test_whole_words_are_chosen_whole() -> None:
    random = np.random.Generator(np.random.PCG64(5))
    total = 0
    for seed in range(200):
        ids = random.integers(5, V, 120).tolist()
        ids[40] = UNK  # after what is special a word begins
        row, _, chosen = hidden(ids, seed=seed, whole=True)
        new = BEGINS[row] | SPECIAL[row] | np.r_[True, SPECIAL[row][:-1]]
        word = np.cumsum(new)
        assert np.array_equal(chosen, np.isin(word, word[chosen]) & ~SPECIAL[row])
        total += chosen.sum()
    assert total / (200 * 119) == pytest.approx(0.15, abs=0.005)


def test_a_word_longer_than_the_share_is_chosen_whole() -> None:
    row, _, chosen = hidden([7, 9, 9, 9], whole=True)
    assert chosen[1:-1].all()
    assert not chosen[[0, -1]].any()
    assert len(row) == 6


def mixture(seed: int = 1, *, budget: int = 128, pairs: bool = True) -> MaskedBatches:
    random = np.random.Generator(np.random.PCG64(9))

    def side(n: int, low: int, high: int) -> EncodedSide:
        return EncodedSide.of(
            [
                marked([random.integers(5, V, m).tolist() for m in random.integers(low, high, 12)])
                for _ in range(n)
            ]
        )

    sources = [
        SentenceRows(side(30, 2, 9), 29, seed=(seed, 0), pairs=pairs),
        SentenceRows(side(9, 1, 4), 29, seed=(seed, 1), pairs=pairs),
    ]
    return MaskedBatches(sources, (0.6, 0.4), budget, seed, PAD, Masking(WORDS, 0.15, False))


def tensors(batch: MaskedBatch) -> list[torch.Tensor]:
    return [part for part in batch if part is not None]


def test_a_batch_is_framed_padded_and_counted() -> None:
    batches = mixture()
    for rows in batches.epoch(0):
        batch = batches.batch(0, rows)
        ids, real, segments, chosen, targets, relation = batch
        assert ids.numel() <= 128
        assert relation is not None
        assert batch.tokens == real.sum()
        assert batch.counts == {"masked": len(targets), "follows": int((relation >= 0).sum())}
        assert (ids[~real] == PAD).all()
        assert not chosen[~real].any()
        lengths = real.sum(dim=1)
        assert (real == (torch.arange(ids.shape[1]) < lengths[:, None])).all()
        assert (ids[:, 0] == START).all()
        assert (ids[torch.arange(len(ids)), lengths - 1] == END).all()
        ends = ((ids == END) & real).sum(dim=1)
        assert torch.equal(ends == 2, relation >= 0)
        middle = (ids == END).long().argmax(dim=1)
        places = torch.arange(ids.shape[1])
        second = (places > middle[:, None]) & (places < lengths[:, None])
        assert torch.equal(segments, second.long())
        assert ids.dtype == targets.dtype == torch.int64


def test_what_is_hidden_stood_there() -> None:
    batches = mixture()
    rows = batches.epoch(0)[0]
    batch = batches.batch(0, rows)
    chosen, places = batches.places(0, rows)
    was = batch.ids.clone()
    was[batch.chosen] = batch.targets
    for place, (source, row) in enumerate(zip(chosen.tolist(), places.tolist(), strict=True)):
        first, second, _ = batches.sources[source].row(row)
        wanted = [START, *first.tolist(), END, *second.tolist(), *[END] * bool(len(second))]
        assert was[place][batch.real[place]].tolist() == wanted


def test_masks_are_fresh_each_pass_and_a_function_of_seed_and_row() -> None:
    one, other = mixture(), mixture()
    for epoch in (0, 3):
        for rows in one.epoch(epoch)[:4]:
            same = zip(
                tensors(one.batch(epoch, rows)), tensors(other.batch(epoch, rows)), strict=True
            )
            assert all(torch.equal(mine, theirs) for mine, theirs in same)
            alone = [other.batch(epoch, rows[place : place + 1]) for place in range(len(rows))]
            whole = one.batch(epoch, rows)
            assert torch.equal(torch.cat([each.targets for each in alone]), whole.targets)
    source = SentenceRows(EncodedSide.of([marked([[*range(5, 45)]])]), 40, seed=(1,), pairs=False)
    batches = MaskedBatches([source], (1.0,), 64, 1, PAD, Masking(WORDS, 0.15, False))
    drawn = [batches.batch(n, batches.epoch(n)[0]).targets.tolist() for n in range(20)]
    assert len({tuple(each) for each in drawn}) > 15
    assert len({id for each in drawn for id in each}) > 35  # in time every token


def test_resumed_in_the_middle_the_batches_are_the_same() -> None:
    def read(epoch: int, batch: int, n: int) -> list[list[list[int]]]:
        batches, found, number = mixture(), [], epoch
        for after, _, rows in islice(batches.after(epoch, batch), n):
            found.append(batches.batch(number, rows).ids.tolist())
            number = after
        return found

    assert read(1, 0, 5)[2:] == read(1, 2, 3)
    assert read(1, 0, 5) != read(2, 0, 5)


def test_an_epoch_has_each_row_once_and_sources_their_shares() -> None:
    batches = mixture()
    n = sum(source.n_rows for source in batches.sources)
    rows = np.concatenate(batches.epoch(2))
    assert np.array_equal(np.sort(rows), np.arange(len(rows)))
    assert len(rows) == pytest.approx(n, abs=2)
    counted = np.bincount(batches.places(2, rows)[0])
    assert counted[0] == pytest.approx(0.6 * n, abs=1)


def test_without_pairs_nothing_is_asked_of_what_follows() -> None:
    batches = mixture(pairs=False)
    batch = batches.batch(0, batches.epoch(0)[0])
    assert batch.relation is None
    assert batch.counts.keys() == {"masked"}
    assert not batch.segments.any()


def test_what_is_judged_on_stays() -> None:
    source, masking = mixture().sources[0], Masking(WORDS, 0.15, False)
    first, again = (fixed_batches(source, masking, 20, 128) for _ in range(2))
    assert sum(len(batch.ids) for batch in first) == 20
    for one, other in zip(first, again, strict=True):
        assert all(map(torch.equal, tensors(one), tensors(other)))
    assert len(fixed_batches(source, masking, 10**6, 128)) > len(first)


def test_a_row_of_unknown_tokens_has_nothing_to_guess() -> None:
    source = SentenceRows(EncodedSide.of([marked([[UNK] * 9])]), 20, seed=(1,), pairs=False)
    (batch,) = fixed_batches(source, Masking(WORDS, 0.15, True), 5, 64)
    assert batch.counts == {"masked": 0}
    assert len(batch.targets) == 0
