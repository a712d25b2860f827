"""Which tokens begin a word: what whole words are masked by, and where a blank belongs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.kinds import MASK
from headway.tokens.text_training import framing, train_text_tokenizer
from headway.tokens.tokenizer import Tokenizer
from headway.tokens.training import train_tokenizer

TEXTS = ["the cats play the playing", "a cat plays, the played cats\n\tplay"] * 9


@pytest.mark.parametrize(
    ("kind", "size", "joins"),
    [("wordpiece", 60, False), ("bpe", 290, True), ("word", 40, True), ("character", 40, False)],
)
@pytest.mark.filterwarnings("ignore::headway.tokens.training.SmallVocabulary")
def test_words_begin(kind: Any, size: int, joins: bool) -> None:
    made = train_text_tokenizer(TokenizerSettings(kind=kind, size=size), TEXTS, masks=True)
    assert made.joins_blanks() is joins
    begins = made.begin_words()
    assert len(begins) == len(made)
    (ids,) = made.encode(["the cats playing,"])
    found = {piece: begins[id] for piece, id in zip(made.pieces(ids), ids, strict=True)}
    if kind == "wordpiece":
        assert found == {piece: not piece.startswith("##") for piece in found}
    elif kind == "word":
        assert all(found.values())
    else:
        assert found == {piece: piece.startswith("▁") for piece in found}
    assert any(found.values())


def test_the_mask_has_the_name_that_a_file_gives_it() -> None:
    plain = train_tokenizer(TokenizerSettings(size=300), TEXTS)
    renamed = Tokenizer.from_json(with_mask(plain.to_json()), where="here")
    made = framing(renamed, masks=True)
    assert made.roles.mask is not None
    assert made.token(made.roles.mask) == "[MASK]"
    assert len(made) == len(renamed)


def with_mask(text: str) -> str:
    table = json.loads(text)
    added = {**table["added_tokens"][-1], "content": "[MASK]", "id": len(table["model"]["vocab"])}
    table["added_tokens"].append(added)
    return json.dumps(table)


def test_text_that_looks_like_the_mask_is_text() -> None:
    made = train_text_tokenizer(TokenizerSettings(size=300), TEXTS, masks=True)
    assert made.roles.mask is not None
    assert made.token(made.roles.mask) == MASK
    (ids,) = made.encode([MASK])
    assert made.roles.mask not in ids
    assert made.shown([made.roles.mask]) == MASK
