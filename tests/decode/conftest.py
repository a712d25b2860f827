"""A toy model whose logits are an exact function of the row's key and the prefix."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.decode.batching import Batcher
from headway.decode.request import Request
from headway.decode.steps import Hypothesis

BOS, EOS = 0, 1
Logits = Callable[[int, tuple[int, ...]], Tensor]


@dataclass
class Prefixes:
    """The prefix of each entry: if decoding loses track of a parent, the text shows it."""

    model: Toy
    entries: list[tuple[int, tuple[int, ...]]]

    def select(self, rows: Tensor) -> Prefixes:
        assert rows.dtype == torch.int64
        self.model.selected.append(rows.tolist())
        return Prefixes(self.model, [self.entries[row] for row in rows.tolist()])


@dataclass
class Toy:
    """`logits(key, prefix)` (V,) is what the model says after `prefix` (without the bos)."""

    logits: Logits
    sizes: list[int] = field(default_factory=list)  # entries of each step
    selected: list[list[int]] = field(default_factory=list)

    def start(self, source: Tensor, lengths: Tensor) -> Prefixes:
        return Prefixes(self, [(key, ()) for key in source[:, 0].tolist()])

    def of(self, *keys: int) -> Prefixes:
        return self.start(torch.tensor(keys).reshape(-1, 1), torch.ones(len(keys)))

    def step(self, ids: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        assert ids.shape == (len(state.entries), 1)
        assert ids.dtype == torch.int64
        self.sizes.append(len(ids))
        entries = [
            (key, (*prefix, token))
            for (key, prefix), token in zip(
                state.entries, ids.as_subclass(Tensor)[:, 0].tolist(), strict=True
            )
        ]
        assert all(prefix[0] == BOS for _, prefix in entries)
        logits = torch.stack([self.logits(key, prefix[1:]) for key, prefix in entries])[:, None]
        return logits, Prefixes(self, entries)

    def rescore(self, key: int, tokens: Sequence[int]) -> float:
        """The log-probability of `tokens` (with eos, if it ended) by running each prefix."""
        return sum(
            float(self.logits(key, tuple(tokens[:n])).double().log_softmax(0)[token])
            for n, token in enumerate(tokens)
        )

    def everything(
        self, key: int, n_tokens: int, limit: int, length_penalty: float, banned: Sequence[int] = ()
    ) -> list[tuple[list[int], float, bool]]:
        """Every hypothesis (ids, score, ended) there is; ended ones first, best first."""
        words = [token for token in range(n_tokens) if token != EOS and token not in banned]
        found = []
        for length in range(limit + 1):
            for ids in itertools.product(words, repeat=length):
                tokens = list(ids) if length == limit else [*ids, EOS]
                score = self.rescore(key, tokens) / ((5 + len(tokens)) / 6) ** length_penalty
                found.append((list(ids), score, length < limit))
        return sorted(found, key=lambda hypothesis: (not hypothesis[2], -hypothesis[1]))


def random_logits(n_tokens: int, seed: int = 0, scale: float = 2.0, eos: float = 0.0) -> Logits:
    """Normal logits that depend on everything; `eos` is added to the eos."""
    table: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    def logits(key: int, prefix: tuple[int, ...]) -> Tensor:
        if (key, prefix) not in table:
            generator = torch.Generator().manual_seed(
                zlib.crc32(repr((seed, key, prefix)).encode())
            )
            row = scale * torch.randn(n_tokens, generator=generator)
            row[EOS] += eos
            table[key, prefix] = row
        return table[key, prefix]

    return logits


@pytest.fixture(scope="session")
def toy() -> Callable[..., Toy]:
    """Makes a toy model: from a function of (key, prefix), or random with `n_tokens`, `seed`, …"""

    def make(logits: Logits | None = None, **settings: float) -> Toy:
        return Toy(logits or random_logits(**settings))  # type: ignore[arg-type]

    return make


class Seats:
    """Texts that come and go, as plain lists; it refuses what has no room."""

    def __init__(self, rows: int, places: int) -> None:
        self.rows, self.places = rows, places
        self.lengths: list[int] = []
        self.texts: list[list[int]] = []

    def add(self, n: int) -> None:
        self.lengths += [0] * n
        self.texts += [[] for _ in range(n)]
        assert len(self.lengths) <= self.rows

    def move(self, source: int, target: int) -> None:
        self.lengths[target] = self.lengths[source]
        self.texts[target] = list(self.texts[source])

    def drop(self) -> None:
        self.lengths.pop()
        self.texts.pop()

    def rewind(self, row: int, length: int) -> None:
        assert 0 <= length <= self.lengths[row]
        self.lengths[row] = length

    def resize(self, rows: int, places: int) -> None:
        assert len(self.lengths) <= rows
        assert max(self.lengths, default=0) <= places
        self.rows, self.places = rows, places

    def part(self, begin: int, end: int) -> tuple[Seats, int, int]:
        assert 0 <= begin < end <= len(self.lengths)
        return self, begin, end

    def take(self, row: int, token: int) -> tuple[int, ...]:
        self.texts[row][self.lengths[row] :] = [token]
        self.lengths[row] += 1
        assert self.lengths[row] <= self.places
        return tuple(self.texts[row])


@dataclass
class Serving:
    """`logits(0, text)` (V,) is what the model says after a text, of which it is given all."""

    logits: Logits
    n_tokens: int
    read_sizes: list[tuple[int, int]] = field(default_factory=list)
    step_sizes: list[tuple[int, int]] = field(default_factory=list)
    made: list[Seats] = field(default_factory=list)

    def slots(self, rows: int, places: int) -> Seats:
        self.made.append(Seats(rows, places))
        return self.made[-1]

    def read(self, ids: Tensor, part: tuple[Seats, int, int]) -> tuple[Tensor, Any]:
        slots, begin, end = part
        assert ids.shape[0] == end - begin
        self.read_sizes.append((ids.shape[0], ids.shape[1]))
        for row, tokens in enumerate(ids.tolist(), start=begin):
            for token in tokens:
                slots.take(row, token)
        return ids, part

    def step(self, ids: Tensor, part: tuple[Seats, int, int]) -> tuple[Tensor, Any]:
        slots, begin, end = part
        assert ids.shape[0] == end - begin
        self.step_sizes.append((ids.shape[0], ids.shape[1]))
        rows = [
            torch.stack([self.logits(0, slots.take(row, token)) for token in tokens])
            for row, tokens in enumerate(ids.tolist(), start=begin)
        ]
        return torch.stack(rows), part


@pytest.fixture(scope="session")
def serving() -> Callable[..., Serving]:
    """Makes a toy model that serves: from a function of (0, text), or random."""

    def make(logits: Logits | None = None, *, n_tokens: int = 9, **settings: float) -> Serving:
        known = logits or random_logits(n_tokens, **settings)  # type: ignore[arg-type]
        return Serving(known, n_tokens)

    return make


@pytest.fixture
def alone() -> Callable[[Any, Request], Hypothesis]:
    """What a model answers to a request that is the only one."""

    def answer(model: Any, asked: Request) -> Hypothesis:
        batcher = Batcher(model, memory=10_000)
        ticket = batcher.submit(asked)
        batcher.run()
        return ticket.result()

    return answer
