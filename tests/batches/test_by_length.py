"""Batches of rows of like length: all rows once, little padding, another order each epoch."""

from __future__ import annotations

import numpy as np
import torch

from headway.batches.by_length import WINDOW, AnswerBatches, FramedRows, LabelBatches
from headway.batches.pairs import EncodedSide

TOGETHER = 4


def batches(n: int = 700, seed: int = 1) -> LabelBatches:
    random = np.random.default_rng(0)
    rows = [[7] * length for length in random.integers(1, 60, n)]
    segments = [[0] * (len(row) // 2) + [1] * (len(row) - len(row) // 2) for row in rows]
    framed = FramedRows(EncodedSide.of(rows), EncodedSide.of(segments))
    return LabelBatches(framed, np.arange(n), TOGETHER, seed, pad=0)


def test_an_epoch_has_each_row_once_and_is_a_function_of_its_number() -> None:
    found = batches()
    first = found.epoch(0)
    assert sorted(row for some in first for row in some) == list(range(700))
    assert len(first) == 700 // TOGETHER
    assert all(map(np.array_equal, first, batches().epoch(0)))
    assert not all(map(np.array_equal, first, found.epoch(1)))
    assert not all(map(np.array_equal, first, batches(seed=2).epoch(0)))
    company = [{frozenset(some.tolist()) for some in found.epoch(number)} for number in (0, 1)]
    assert len(company[0] & company[1]) < 5  # not the same batches in another order


def test_there_is_little_padding() -> None:
    found = batches()
    lengths = found.rows.ids.lengths
    padded = sum(len(some) * lengths[some].max() for some in found.epoch(0))
    drawn = np.random.default_rng(1).permutation(700).reshape(-1, TOGETHER)
    assert padded < 1.06 * lengths.sum()
    assert sum(TOGETHER * lengths[some].max() for some in drawn) > 1.4 * lengths.sum()
    assert WINDOW * TOGETHER < 700  # several windows were seen


def test_labels_and_segments_stay_with_their_rows() -> None:
    found = batches()
    rows = found.epoch(0)[3]
    batch = found.batch(0, rows)
    lengths = found.rows.ids.lengths[rows]
    assert batch.labels.tolist() == rows.tolist()
    assert batch.real.sum(dim=1).tolist() == lengths.tolist()
    assert batch.segments.sum(dim=1).tolist() == (lengths - lengths // 2).tolist()
    assert (batch.counts, batch.tokens) == ({"row": TOGETHER}, lengths.sum())
    assert batch.segments[~batch.real].sum() == 0


def test_padding_is_told_by_lengths_alone() -> None:
    """Trap B13: the end symbol is learnt, be it the padding's id too."""
    end = 9
    ids = EncodedSide.of([[1, 2, 5, end], [1, 2, 3, end, 6, 7, end]])
    learnt = EncodedSide.of([[0, 0, 1, 1], [0, 0, 1, 1, 0, 1, 1]])
    found = AnswerBatches(ids, learnt, 2, seed=1, pad=end)
    batch = found.batch(0, np.array([0, 1]))
    assert batch.ids.tolist() == [[1, 2, 5, end, end, end], [1, 2, 3, end, 6, 7]]
    assert batch.following[batch.predicted].tolist() == [5, end, 3, end, 7, end]
    assert torch.equal(batch.predicted.sum(dim=1), torch.tensor([2, 4]))
    assert batch.counts == {"token": 6}
