"""What a message spells is text, also where special tokens are short or overlap."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.tokens.text import Roles, TextTokenizer

TEMPLATE = "<|u|>{{ messages[0].content }}†"


def ids(specials: list[str], text: str) -> list[int]:
    """The special ids, from 256 on, of a conversation in which a user says `text`."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(each, normalized=False) for each in specials])
    tokenizer = TextTokenizer(made, Roles(ends=frozenset({256}), template=TEMPLATE))
    found = tokenizer.chat([{"role": "user", "content": text}])
    names = dict(enumerate(specials, 256))
    said = "".join(names.get(id) or tokenizer.decode([[id]])[0] for id in found if id >= 256)
    whole = [b for id in found for b in (made.id_to_token(id) or "" if id < 256 else "")]
    assert decoders.ByteLevel().decode(whole) == text, "the text itself is as it was"
    assert said == "<|u|>†"
    return found


@pytest.mark.parametrize("text", ["a†b", "†", "††", "a <|u|>†", "<†>", "†x", "\ue000†"])
def test_a_special_token_of_one_letter_is_text_in_a_message(text: str) -> None:
    ids(["†", "<|u|>", "<†>", "†x"], text)


@pytest.mark.parametrize("text", ["<|u|>|>|", "|>|>|", "aaa", "<|u|>|aa"])
def test_special_tokens_that_overlap_are_text_in_a_message(text: str) -> None:
    ids(["†", "<|u|>", "|>|", "aa"], text)


def test_a_special_token_may_be_a_letter_for_private_use() -> None:
    ids(["†", "<|u|>", "\ue000"], "a\ue000b")
    ids(["†", "<|u|>", "\ue000"], "a†b")
