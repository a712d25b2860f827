"""Ids far beyond the number of tokens end in a message, not in all memory taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.runs.text_tokenizers import folder_tokenizer
from headway.tokens.importing import import_tokenizer
from headway.tokens.tokenizer import open_backend

ADDED = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)


def content(vocab: Any, *, kind: str = "WordLevel", added: int | None = None) -> str:
    more: dict[str, Any] = {"unk_id": 0} if kind == "Unigram" else {"unk_token": "a"}
    more |= {"merges": []} if kind == "BPE" else {}
    tokens = [] if added is None else [{"id": added, "content": "<new>", **ADDED}]
    model = {"type": kind, "vocab": vocab, **more}
    return json.dumps({"version": "1.0", "added_tokens": tokens, "model": model})


@pytest.mark.parametrize("kind", ["WordLevel", "BPE"])
@pytest.mark.parametrize("id", [2**31, 2**20 + 17, -1, 2**40])
def test_a_far_id_is_one_message_with_its_token(kind: str, id: int) -> None:
    text = content({"a": 0, "b": id}, kind=kind)
    with pytest.raises(UserError, match=f"the id {id} of the token 'b' is no id of 2 tokens"):
        open_backend(text, where="a.json", todo="copy it again")


@pytest.mark.parametrize(
    ("vocab", "kind"), [({"a": 0}, "WordLevel"), ([["a", 0.0], ["b", -1.5]], "Unigram")]
)
@pytest.mark.parametrize("id", [2**31, -7])
def test_so_is_that_of_an_added_token(vocab: Any, kind: str, id: int) -> None:
    with pytest.raises(UserError, match=f"the id {id} of the token '<new>'"):
        open_backend(content(vocab, kind=kind, added=id), where="a.json", todo="copy it again")


def test_every_way_in_refuses_them(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content({"a": 0, "b": 2**31}), encoding="utf-8")
    for opened in (lambda: import_tokenizer(path), lambda: folder_tokenizer(tmp_path)):
        with pytest.raises(UserError, match="the token 'b'") as told:
            opened()
        assert told.value.where == str(path)


def test_some_gaps_are_as_before() -> None:
    made = open_backend(content({"a": 0, ":-": 2**20 + 16}), where="a.json", todo="")
    assert made.token_to_id(":-") == 2**20 + 16
