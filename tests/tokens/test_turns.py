"""Conversations in pieces: what the assistant is to say, and nothing else, is marked."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.tokens.text import Roles, TextTokenizer

CHAT = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
FORGETS = (
    "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.content }}<|end|>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS = ["<|end|>", "<|user|>", "<|assistant|>", "<s>"]
TALK = [
    {"role": "user", "content": "a <|end|>"},
    {"role": "assistant", "content": " b"},
    {"role": "user", "content": "c"},
    {"role": "assistant", "content": "d<|assistant|>"},
    {"role": "user", "content": "e"},
]


def tokenizer(template: str | None, *, adds_bos: bool = False) -> TextTokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(each, normalized=False) for each in SPECIALS])
    roles = Roles(bos=259, ends=frozenset({256}), adds_bos=adds_bos, template=template)
    return TextTokenizer(made, roles)


def spelled(made: TextTokenizer, ids: list[int]) -> str:
    names = dict(zip(range(256, 260), SPECIALS, strict=True))
    return "".join(names.get(id) or made.decode([[id]])[0] for id in ids)


def test_what_the_assistant_says_ends_with_its_end_symbol() -> None:
    made = tokenizer(CHAT)
    pieces = made.turns(TALK)
    whole = [id for ids, _ in pieces for id in ids]
    wanted = "<s><|user|>a <|end|><|end|>\n<|assistant|> b<|end|>\n<|user|>c<|end|>\n<|assistant|>d"
    assert spelled(made, whole) == f"{wanted}<|assistant|><|end|>\n"
    said = [ids for ids, learnt in pieces if learnt]
    assert [spelled(made, ids) for ids in said] == [" b<|end|>", "d<|assistant|><|end|>"]
    assert [ids[-1] for ids in said] == [256, 256]
    assert 258 not in said[1]  # a user's or assistant's text is no special token
    assert pieces[0][0] == made.chat(TALK[:1])  # what generating begins with


def test_the_start_symbol_comes_once() -> None:
    for adds_bos in (False, True):
        ids = [id for some, _ in tokenizer(CHAT, adds_bos=adds_bos).turns(TALK) for id in some]
        assert ids.count(259) == 1
    bare = tokenizer(CHAT.replace("{{ bos_token }}", ""), adds_bos=True).turns(TALK)
    assert next(ids for ids, _ in bare) == [259]


def test_a_template_that_rewrites_what_was_said_is_refused() -> None:
    with pytest.raises(UserError, match="does not write the beginning of a conversation"):
        tokenizer(FORGETS).turns(TALK)
    with pytest.raises(UserError, match="no chat template"):
        tokenizer(None).turns(TALK)


def test_frames_are_cut_in_the_longer_text() -> None:
    made = tokenizer(None)
    (pair,) = made.framed(["a" * 10], ["b" * 4], longest=8)
    assert spelled(made, pair[0]) == "aaaabbbb"
    assert pair[1] == [0, 0, 0, 0, 1, 1, 1, 1]
    ((whole, _),) = made.framed(["a" * 10])
    assert len(whole) == 10
