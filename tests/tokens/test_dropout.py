"""BPE dropout: the same as the library's, but a function of its seed."""

from __future__ import annotations

import itertools
import json
import random
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from headway.base.errors import UserError
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.dropout import BpeDropout
from headway.tokens.tokenizer import Tokenizer
from headway.tokens.training import train_tokenizer

TEXTS = [
    "banana bandana ananas",
    "",
    "Le chat dort, le chien mange. Banana!",
    "aaaaaaa a aa aaa",
    "हिन्दी 😀 </s> <s>\n\t ",
    "x" * 200,
]


def train(kind: str = "bpe", size: int = 330, **more: object) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_tokenizer(TokenizerSettings(kind=kind, size=size, **more), TEXTS * 4)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train()


def rows(
    tokenizer: Tokenizer, rate: float, texts: list[str], *seed: int, longest: int | None = None
) -> list[list[int]]:
    dropout = BpeDropout(tokenizer, rate)
    ids, lengths = dropout.encode(dropout.cut(texts), seed=seed or (0,), longest=longest)
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    assert lengths.sum() == len(ids)
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize("switches", [{}, {"lowercase": True, "strip_accents": True}])
def test_without_dropout_it_is_plain_bpe(switches: dict[str, bool]) -> None:
    tokenizer = train(**switches)
    assert rows(tokenizer, 0.0, TEXTS) == tokenizer.encode(TEXTS)


def test_with_every_merge_left_out_bytes_remain(bpe: Tokenizer) -> None:
    for text, row in zip(TEXTS, rows(bpe, 1.0, TEXTS), strict=True):
        assert len(row) == len(text.encode()) + 1


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_any_cut_decodes_to_the_text(rate: float, bpe: Tokenizer) -> None:
    found = rows(bpe, rate, TEXTS)
    assert bpe.decode(found) == TEXTS
    assert all(row[-1] == bpe.eos for row in found)
    assert not {0, 1, 2, 3} & {id for row in found for id in row[:-1]}
    assert found != bpe.encode(TEXTS)


def test_a_function_of_the_seed(bpe: Tokenizer) -> None:
    first = rows(bpe, 0.5, TEXTS, 7, 0)
    assert rows(bpe, 0.5, TEXTS, 7, 0) == first
    epochs = {str(rows(bpe, 0.5, TEXTS, 7, epoch)) for epoch in range(5)}
    assert len(epochs) == 5


def test_no_texts_and_empty_texts(bpe: Tokenizer) -> None:
    dropout = BpeDropout(bpe, 0.1)
    ids, lengths = dropout.encode(dropout.cut([]), seed=[0], longest=1)
    assert (len(ids), len(lengths)) == (0, 0)
    assert rows(bpe, 0.1, ["", ""]) == [[bpe.eos]] * 2


def by_the_paper(file: dict[str, Any], word: str, rate: float, draw: random.Random) -> list[int]:
    """Algorithm 1 of Provilkov et al. 2020, as it stands there."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(file["model"]["merges"])}
    parts = list(word)
    while True:
        possible = [
            (ranks[pair], place)
            for place, pair in enumerate(itertools.pairwise(parts))
            if pair in ranks and draw.random() >= rate
        ]
        if not possible:
            return [file["model"]["vocab"][part] for part in parts]
        _, place = min(possible)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_words_are_cut_as_often_as_in_the_paper(rate: float, bpe: Tokenizer) -> None:
    """Every way to cut a word, by its share of the draws: a standard error is below 0.01."""
    n, draw, file = 5000, random.Random(1), json.loads(bpe.to_json())
    for word in ("bandana", "aaaaaaa", "mange"):
        found = Counter(map(tuple, rows(bpe, rate, [word] * n)))
        wanted = Counter((*by_the_paper(file, word, rate, draw), bpe.eos) for _ in range(n))
        assert len(wanted) > 3
        for cut in found.keys() | wanted.keys():
            assert abs(found[cut] - wanted[cut]) / n < 0.04, cut


def test_a_text_that_would_be_too_long_is_cut_plainly(bpe: Tokenizer) -> None:
    plain = bpe.encode(TEXTS)
    longest = max(map(len, plain))
    free, bound = (rows(bpe, 0.9, TEXTS, 3, longest=at) for at in (None, longest))
    assert max(map(len, free)) > longest
    for one, other, usual in zip(free, bound, plain, strict=True):
        assert other == (usual if len(one) > longest else one)


def test_other_kinds_are_refused() -> None:
    for kind in ("character", "word", "wordpiece"):
        with pytest.raises(UserError, match=r"tokenizer\.dropout: only byte-level BPE can leave"):
            BpeDropout(train(kind), 0.1)


def test_the_file_knows_no_dropout(bpe: Tokenizer) -> None:
    rows(bpe, 0.5, TEXTS)
    assert json.loads(bpe.to_json())["model"]["dropout"] is None


def test_half_a_surrogate_pair_is_named(bpe: Tokenizer) -> None:
    with pytest.raises(UserError, match="text 2 is not valid Unicode"):
        rows(bpe, 0.1, ["a", "\ud800"])
