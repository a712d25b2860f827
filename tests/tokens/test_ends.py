"""The end symbol that is written after a text, and text that goes on behind another."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.tokens.text import Roles, TextTokenizer

PIECES = ["\u2581is", "\u2581Paris", "ris", "<s>", "</s>", "<turn>", "<0xC3>", "<0xA9>"]


def tokenizer(roles: Roles) -> TextTokenizer:
    """Of the kind of SentencePiece: its decoder takes the blank from before a text."""
    made = Backend(models.BPE({piece: id for id, piece in enumerate(PIECES)}, [], unk_token="<s>"))
    made.add_special_tokens([AddedToken(piece) for piece in PIECES[3:6]])
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return TextTokenizer(made, roles)


def test_of_several_ends_the_one_that_is_named_is_written() -> None:
    named = tokenizer(Roles(ends=frozenset({4, 5}), eos=5))
    assert (named.end(), named.documents([""])) == (5, [[5, 5]])
    assert tokenizer(Roles(ends=frozenset({4, 5}))).end() == 4
    assert named._names()["eos_token"] == "<turn>"


def test_without_an_end_nothing_is_taught_to_stop() -> None:
    with pytest.raises(UserError, match="no end symbol"):
        tokenizer(Roles()).documents(["a"])


def test_a_text_that_goes_on_keeps_its_blank() -> None:
    made = tokenizer(Roles())
    assert made.decode([[1]]) == ["Paris"]
    assert made.continuation([1, 2], after=0) == " Parisris"
    assert made.continuation([1], after=3) == "Paris", "behind a special token a text begins"
    assert made.continuation([7], after=6) == made.decode([[7]])[0], "half a letter is no context"
    stream = made.stream(after=0)
    assert "".join(map(stream, [1, 2])) == " Parisris"
    assert made.stream(after=3)(1) == "Paris"
