"""Documents end to end: every token once a pass, no border crossed, shares kept, exact resume."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.batches.packed import PackedBatches, Packing, packed, shares_of
from headway.batches.pairs import EncodedSide
from headway.models.build import build_decoder
from headway.settings.model import DecoderSettings
from headway.training.objectives import PredictNext

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=12)


def side_of(lengths: list[int]) -> EncodedSide:
    """Ids that tell their document and their place in it: 100 × document + place."""
    return EncodedSide.of([[100 * n + place for place in range(m)] for n, m in enumerate(lengths)])


def predictions(batch_ids: torch.Tensor, following: torch.Tensor, predicted: torch.Tensor) -> list:
    return [
        (before, after)
        for before, after, counts in zip(
            batch_ids.flatten().tolist(),
            following.flatten().tolist(),
            predicted.flatten().tolist(),
            strict=True,
        )
        if counts
    ]


@given(LENGTHS, st.integers(1, 9), st.integers(0, 3))
def test_each_token_but_the_first_of_its_document_is_predicted_once_a_pass(
    lengths: list[int], length: int, number: int
) -> None:
    rows = Packing(side_of(lengths), length, seed=(1, 0))
    places = range(number * rows.n_rows, (number + 1) * rows.n_rows)
    if not rows.n_rows:
        return
    batch = packed([rows.row(place) for place in places], length, pad=0)
    seen = predictions(batch.ids, batch.following, batch.predicted)
    wanted = [
        (100 * n + place - 1, 100 * n + place)
        for n, m in enumerate(lengths)
        for place in range(1, m)
    ]
    assert sorted(seen) == wanted  # what is before is always of the same document
    assert batch.tokens == batch.counts["token"] == len(wanted)


@given(LENGTHS, st.integers(1, 9))
def test_numbers_change_where_documents_do(lengths: list[int], length: int) -> None:
    rows = Packing(side_of(lengths), length, seed=None)
    for place in range(rows.n_rows):
        ids, numbers = rows.row(place)
        assert (ids // 100 == numbers).all()
        batch = packed([(ids, numbers)], length, pad=0)
        inside = len(ids) - 1
        borders = (np.diff(numbers) != 0).any()
        assert (batch.numbers is not None) == borders
        if batch.numbers is not None:
            assert (batch.numbers[0, :inside].numpy() == ids[:inside] // 100).all()


def test_passes_have_orders_of_their_own_and_repeat_them() -> None:
    one, other = (Packing(side_of([3] * 40), 8, seed=(7, 0)) for _ in range(2))
    passes = [
        [one.row(number * one.n_rows + place)[0].tolist() for place in range(one.n_rows)]
        for number in range(3)
    ]
    assert passes[0] != passes[1] != passes[2]
    assert other.row(one.n_rows)[0].tolist() == passes[1][0]


def mixture(seed: int = 1) -> PackedBatches:
    sources = [
        Packing(side_of([5] * 30), 6, seed=(seed, 0)),
        Packing(EncodedSide.of([[9000 + i for i in range(7)]] * 9), 6, seed=(seed, 1)),
    ]
    return PackedBatches(sources, (0.7, 0.3), 24, seed, pad=0)


def test_sources_have_their_shares_and_go_on_from_epoch_to_epoch() -> None:
    batches = mixture()
    total = sum(source.n_rows for source in batches.sources)
    seen: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    for epoch in range(6):
        counted = [0, 0]
        for rows in batches.epoch(epoch):
            batch = batches.batch(epoch, rows)
            for ids, following, real in zip(
                batch.ids, batch.following, batch.predicted, strict=True
            ):
                source = int(ids[0] >= 9000)
                counted[source] += 1
                seen[source].update(predictions(ids, following, real))
        assert counted[0] == pytest.approx(0.7 * total, abs=1)
        assert counted[1] == pytest.approx(0.3 * total, abs=1)
    assert batches.counts(6) == [round(0.7 * 6 * total), round(0.3 * 6 * total)]
    for source, found in zip(batches.sources, seen, strict=True):
        times = set(found.values()) if source is batches.sources[0] else {1}
        assert max(times) - min(times) <= 1  # each pass is whole before the next begins


def test_resumed_in_the_middle_the_rows_are_the_same() -> None:
    def read(epoch: int, batch: int, n: int) -> list[list[list[int]]]:
        batches = mixture()
        return [
            batches.batch(number, rows).ids.tolist()
            for number, (_, _, rows) in zip(
                [epoch] * n, islice(batches.after(epoch, batch), n), strict=True
            )
        ]

    assert read(1, 0, 5)[2:] == read(1, 2, 3)
    assert read(1, 0, 5) != read(2, 0, 5)


@pytest.mark.parametrize(
    ("weights", "temperature", "expected"),
    [
        ({"a": None, "b": None}, 1.0, [0.8, 0.2]),
        ({"a": None, "b": None}, 2.0, [2 / 3, 1 / 3]),
        ({"a": 1.0, "b": 3.0}, 1.0, [0.25, 0.75]),
        ({"a": None, "b": None}, 0.5, [16 / 17, 1 / 17]),
        ({"a": None, "b": None}, 1e-9, [1.0, 0.0]),
        ({"a": None, "b": None}, 1e-320, [1.0, 0.0]),
        ({"a": None, "b": None}, 1e300, [0.5, 0.5]),
    ],
)
def test_shares(
    weights: dict[str, float | None], temperature: float, expected: list[float]
) -> None:
    assert shares_of({"a": 400, "b": 100}, weights, temperature) == pytest.approx(expected)


def test_packing_has_the_loss_and_the_gradient_of_the_documents_apart() -> None:
    """A12."""
    settings = DecoderSettings(
        n_layers=2,
        d_model=16,
        d_feed_forward=32,
        n_heads=2,
        max_length=32,
        order="pre",
        dropout=0.0,
    )
    lengths, random = [3, 7, 2, 5], torch.Generator().manual_seed(1)
    documents = EncodedSide.of(
        [torch.randint(0, 11, (n,), generator=random).tolist() for n in lengths]
    )

    def losses(groups: list[list[int]]) -> tuple[float, dict[str, torch.Tensor]]:
        model, total = build_decoder(settings, n_tokens=11), 0.0
        for group in groups:
            rows = [
                (
                    documents.ids[documents.starts[n] : documents.starts[n + 1]],
                    np.full(lengths[n], n),
                )
                for n in group
            ]
            ids, numbers = (np.concatenate(part) for part in zip(*rows, strict=True))
            batch = packed([(ids, numbers)], len(ids) - 1, pad=0)
            loss = PredictNext(0.0)(model, batch, None, "float32")["token"].objective
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total, {name: weight.grad for name, weight in model.named_parameters()}

    together, one = losses([[0, 1, 2, 3]])
    apart, other = losses([[0], [1], [2], [3]])
    assert together == pytest.approx(apart, rel=1e-6)
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, other[name], atol=1e-5, rtol=1e-4)
