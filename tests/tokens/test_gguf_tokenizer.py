"""Tokenisers rebuilt from the metadata of GGUF files."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tokenizers import pre_tokenizers

from headway.base.errors import UserError
from headway.tokens.gguf import gguf_tokenizer
from headway.tokens.text import Roles, TextTokenizer

KEY = "tokenizer.ggml."
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = ["1 2", "12 3", "Ġ 1", "h i", "Ġ hi"]
TOKENS = [*LETTERS, "12", "123", "Ġ1", "hi", "Ġhi", "<|end|>"]
BYTES = {
    "model": "gpt2",
    "tokens": TOKENS,
    "merges": MERGES,
    "token_type": np.array([1] * (len(TOKENS) - 1) + [3]),
}
PIECES = ["<unk>", "<0xC3>", "<0xA9>", "▁", "a", "b", "ab", "▁ab"]
SENTENCES = {
    "model": "llama",
    "tokens": PIECES,
    "scores": np.array([0, 0, 0, -3, -3, -3, -1, -2], np.float32),
    "token_type": np.array([2, 6, 6, 1, 1, 1, 1, 1]),
}


def make(table: dict[str, Any]) -> TextTokenizer:
    made = gguf_tokenizer({KEY + name: value for name, value in table.items()}, "a.gguf")
    return TextTokenizer(made, Roles())


def pieces(table: dict[str, Any], text: str) -> list[str]:
    tokenizer = make(table)
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode([ids]) == [text]
    return tokenizer.pieces(ids)


@pytest.mark.parametrize(
    ("pre", "cut"),
    [
        ("gpt-2", ["123", "▁hi", "▁1"]),
        ("smollm", ["1", "2", "3", "▁hi", "▁", "1"]),  # each digit alone, no blank before it
        ("llama-bpe", ["123", "▁hi", "▁", "1"]),  # three digits at most, no blank before them
    ],
)
def test_the_name_of_the_rule_decides_how_digits_are_cut(pre: str, cut: list[str]) -> None:
    assert pieces(BYTES | {"pre": pre}, "123 hi 1") == cut


def test_a_special_token_is_only_text_to_a_user() -> None:
    tokenizer = make(BYTES | {"pre": "smollm"})
    (ids,) = tokenizer.encode(["<|end|>"])
    assert TOKENS.index("<|end|>") not in ids
    assert tokenizer.decode([[TOKENS.index("<|end|>")]]) == [""]


def test_sentence_pieces_merge_by_score_and_fall_back_to_bytes() -> None:
    tokenizer = make(SENTENCES)
    assert tokenizer.encode(["ab b", "é"]) == [[7, 3, 5], [3, 1, 2]]
    assert tokenizer.decode([[7, 3, 5], [3, 1, 2]]) == ["ab b", "é"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"model": "unigram"}, "unknown tokenizer.ggml.model 'unigram'"),
        ({"model": np.arange(3)}, "unknown tokenizer.ggml.model"),
        (
            {"pre": "qwen9"},
            "unknown tokenizer.ggml.pre 'qwen9'.*: headway import FILE DST --pre NAME",
        ),
        ({"pre": np.arange(3)}, "unknown tokenizer.ggml.pre"),
        ({"tokens": np.arange(3)}, "no list of texts 'tokenizer.ggml.tokens'"),
        ({"tokens": None}, "no list of texts 'tokenizer.ggml.tokens'"),
        ({"tokens": ["a", "a"]}, "the same token twice"),
        ({"merges": np.arange(3)}, "no list of texts 'tokenizer.ggml.merges'"),
        ({"merges": ["ab"]}, "'ab' is no merge"),
        ({"merges": ["h x"]}, "the merge 'h x' is of no tokens"),
        ({"token_type": 5}, "no list of numbers 'tokenizer.ggml.token_type'"),
        ({"token_type": np.ones(2)}, "not as many types as tokens"),
    ],
)
def test_what_cannot_be_rebuilt_is_one_message(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        make(BYTES | {"pre": "smollm"} | changed)


@pytest.mark.parametrize("scores", [["a"], np.zeros(3)])
def test_scores_must_be_as_many_numbers(scores: Any) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.ggml\.scores"):
        make(SENTENCES | {"scores": scores})


def test_half_a_letter_is_told() -> None:
    with pytest.raises(UserError, match="text 1 is not valid Unicode"):
        make(BYTES | {"pre": "smollm"}).framed(["\udcff"])


def peak(work: Callable[[], object]) -> int:
    """Bytes that Python and numpy take at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def with_pieces(*more: str) -> dict[str, Any]:
    """The sentence pieces and others, of which the shorter are the better."""
    pieces = [*PIECES, *more]
    types = np.array([2, 6, 6] + [1] * (len(pieces) - 3))
    scores = np.array([-float(len(piece)) for piece in pieces], np.float32)
    return SENTENCES | {"tokens": pieces, "scores": scores, "token_type": types}


def test_the_ways_to_merge_are_all_there_are() -> None:
    draw = random.Random(1)
    more = {"".join(draw.choices("ab▁", k=draw.randrange(2, 7))) for _ in range(300)}
    table = with_pieces(*sorted(more - set(PIECES), key=lambda _: draw.random()))
    tokens = table["tokens"]
    ids, found = {token: id for id, token in enumerate(tokens)}, []
    for token in tokens:
        for cut in range(1, len(token)):
            if token[:cut] in ids and token[cut:] in ids:
                pair = (token[:cut], token[cut:])
                found.append((len(token), ids[token], ids[pair[0]], ids[pair[1]], pair))
    assert len(found) > 300
    merges = json.loads(make(table).to_json())["model"]["merges"]
    assert [tuple(pair) for pair in merges] == [pair for *_, pair in sorted(found)]


def test_a_long_token_takes_no_more_than_itself() -> None:
    table = with_pieces("a" * 10_000, "ab" * 5_000)
    assert peak(lambda: make(table)) < 2_000_000


def test_pieces_that_are_all_parts_of_one_another_are_refused() -> None:
    table = with_pieces(*("a" * n for n in range(2, 1000)))
    told = r"a\.gguf, tokenizer\.ggml\.tokens: its tokens can be made .* in too many ways"
    with pytest.raises(UserError, match=told):
        make(table)
    make(with_pieces(*("a" * n for n in range(2, 65))))  # as long as runs of blanks are


class Texts(Sequence[str]):
    """Texts as a file has them: one is long."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: Any) -> Any:
        if index >= 100:
            raise IndexError
        return "a" * (1 if index else 300_000)


@pytest.mark.parametrize("texts", [Texts(), list(Texts())], ids=["file", "list"])
@pytest.mark.parametrize("name", ["scores", "token_type"])
def test_texts_in_place_of_numbers_stay_small(name: str, texts: Any) -> None:
    def refused() -> None:
        with pytest.raises(UserError, match=rf"no list of numbers 'tokenizer\.ggml\.{name}'"):
            make(SENTENCES | {name: texts})

    assert peak(refused) < 5_000_000
