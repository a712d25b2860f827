"""The texts by which tokenisers are compared, and how special tokens in them are read."""

from __future__ import annotations

import importlib
import unicodedata

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from headway.tokens.text import Roles, TextTokenizer


def test_they_are_the_same_each_time_and_have_a_meaning() -> None:
    hard = importlib.import_module("hard_texts")
    texts = hard.hard_texts(500)
    assert texts == hard.hard_texts(500)
    assert texts != hard.hard_texts(500, seed=2)
    assert len(set(texts)) == 500
    joined = "".join(texts)
    assert {"Cn", "Co", "Cs"}.isdisjoint(map(unicodedata.category, joined))
    assert all(any(piece in joined for piece in kind) for kind in hard.KINDS)


def test_special_tokens_are_read_where_they_are_meant() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    smollm2 = importlib.import_module("smollm2")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|end|>"])
    tokenizer = TextTokenizer(backend, Roles())
    (plain,) = tokenizer.encode(["a<|end|>"])
    assert smollm2.reading(tokenizer, "a<|end|>b<|end|>") == [
        *tokenizer.encode(["a"])[0],
        256,
        *tokenizer.encode(["b"])[0],
        256,
    ]
    assert 256 not in plain
