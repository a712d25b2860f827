"""A toy model whose logits are an exact function of the row's key and the prefix."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

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
