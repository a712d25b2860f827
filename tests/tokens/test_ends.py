"""The end symbol that is written after a text, and text that goes on behind another."""

from __future__ import annotations

import warnings

import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.tokens.text import Roles, TextTokenizer

PIECES = ["\u2581is", "\u2581Paris", "ris", "<s>", "</s>", "<turn>", "<0xC3>", "<0xA9>"]
PIECES += ["<0x0A>", "<0xE4>", "a"]


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


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([8, 9, 10, 1], ["\n", "", "\ufffda", " Paris"]),
        ([10, 8, 9, 9, 10], ["a", "\n", "", "", "\ufffd\ufffda"]),
        ([6, 7, 9, 1, 8, 9, 1], ["", "é", "", "\ufffd Paris", "\n", "", "\ufffd Paris"]),
        ([8, 6, 7, 10], ["\n", "", "é", "a"]),  # what is whole stays so
    ],
)
def test_a_byte_that_fits_no_letter_spoils_no_stream(ids: list[int], told: list[str]) -> None:
    """The library's decoder then takes back what it gave, and its stream raises."""
    stream = tokenizer(Roles()).stream(after=3)
    assert [stream(id) for id in ids] == told


def test_the_context_of_a_stream_may_be_spoiled_too() -> None:
    stream = tokenizer(Roles()).stream(after=8)
    assert [stream(id) for id in (9, 10)] == ["", "\ufffda"]


@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_start_symbol_that_a_prompt_spells_is_text_and_told(adds_bos: bool) -> None:
    made = tokenizer(Roles(bos=3, adds_bos=adds_bos))
    own = "one stands before it" if adds_bos else "prompts of this model have none"
    with pytest.warns(UserWarning, match=f"begins with '<s>', which is read as text, .*: {own}"):
        (ids,) = made.prompts(["<s>a"])
    assert ids[:1] == ([3] if adds_bos else made.encode(["<s>a"])[0][:1])
    assert ids.count(3) == made.encode(["<s>a"])[0].count(3) + adds_bos
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.prompts(["a <s>", ""])
