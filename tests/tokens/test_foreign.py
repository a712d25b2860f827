"""Lists of other tools, and the settings that name a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.settings.base import parse
from headway.settings.tokenizer import PairTokenizerSettings
from headway.tokens.importing import Imported, import_tokenizer

Open = Callable[[bytes], Imported]


@pytest.fixture
def open_file(tmp_path: Path) -> Open:
    """Import what a file of this content is."""

    def run(content: bytes) -> Imported:
        path = tmp_path / "outside.json"
        path.write_bytes(content)
        return import_tokenizer(path)

    return run


def test_a_mark_at_the_start_of_a_file_is_no_part_of_it(open_file: Open) -> None:
    """E4: editors on Windows put it there; without blanks in it, the file is then one word."""
    plain = open_file(b"le\nchat\n").tokenizer.to_json()
    for content in (plain.encode("utf-8"), b"le\nchat\n"):
        assert open_file(b"\xef\xbb\xbf" + content).tokenizer.to_json() == plain


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"{", "not JSON: "),
        (b'{"a": 0, "b": 1}', "this is a vocab.json"),
        (b'{"model_type": "bert"}', "this is a config file"),
        (b'{"model": {"type": "BPE"}}', "not a tokeniser that can be read"),
        (b"#version: 0.2\nl e</w>\nc h\n", "these are the codes of subword-nmt"),
        (b"#version: 0.2\n\xc4\xa0 l\nc h\n", "the merges of a byte-level BPE"),
        (b"l e</w> 120\nc h 90\n", "these are merges of BPE"),
        (b"le@@ 12\nchat 3\n", "a counted list of subwords"),
        (b"le 12\nchat 3\n", "a counted list of words"),
        ("<unk>\t0\n<s>\t0\n▁le\t-2.5\n▁chat\t-1e-05\n".encode(), "the .vocab of a SentencePiece"),
        ("<unk>\n▁le\n▁chat\n".encode(), "a list of SentencePiece pieces"),
        (b"[PAD]\n[UNK]\nle\n##s\n", "the vocab.txt of a BERT"),
        (b"le@@\nchat\n", "a list of subwords of subword-nmt"),
        (b"\n\x10\n\x05<unk>\x15\x00\x00\x00\x00\xff", "a SentencePiece model"),
        (b"\xff\xfe\x00", "not a tokenizer.json, and not text"),
        (b"le\nchat\nle\n", "outside.json:3: 'le' stands there for the second time"),
        (b"le\n\nchat\n", "outside.json:2: not one word; name a tokenizer.json"),
        (b"le\nle chat\ndort\n", "outside.json:2: not one word"),
    ],
)
def test_lists_of_other_tools_are_told_by_name(content: bytes, what: str, open_file: Open) -> None:
    """C14"""
    with pytest.raises(UserError) as caught:
        open_file(content)
    assert what in str(caught.value)


def test_a_list_of_words(open_file: Open) -> None:
    """C14: line i of the list has id i, and what it lacks comes behind."""
    found = open_file("\ufeff<unk>\r\nle\r\nchat\r\n,\r\n".encode())
    made = found.tokenizer
    assert made.encode(["chat le\tchien  ,"]) == [[2, 1, 0, 3, made.eos]]
    assert made.decode([[2, 1, 3, made.eos]]) == ["chat le ,"]
    assert (len(made), made.pad, made.bos, made.eos) == (7, 4, 5, 6)
    assert "its <unk> (id 0) is now a special token" in found.notes
    assert made.encode(["le </s>"]) == [[1, 0, made.eos]]


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"target_file": "b"}, "target_file goes with file"),
        ({"file": "a", "lowercase": True}, "leave out lowercase and strip_accents"),
        ({"file": "a", "joint": False}, "one file is for both sides"),
        ({"file": "a", "target_file": "b"}, "one file is for both sides"),
        ({"kind": "word", "dropout": 0.1}, "dropout is for kind = 'bpe', not for 'word'"),
        ({"dropout": 1.0}, "less than 1"),
    ],
)
def test_settings_that_do_not_go_together(table: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what):
        parse(PairTokenizerSettings, table, where="x")
    parse(PairTokenizerSettings, {"file": "a", "target_file": "b", "joint": False}, where="x")
    parse(PairTokenizerSettings, {"file": "a", "kind": "word", "dropout": 0.1}, where="x")


def outside(**model: Any) -> bytes:
    """A tokenizer.json that marks nothing as special."""
    empty = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    table = dict.fromkeys(empty) | {"version": "1.0", "added_tokens": []}
    table["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    return json.dumps(table | {"model": model}).encode()


@pytest.mark.parametrize(
    "content",
    [
        outside(type="Unigram", unk_id=None, vocab=[["a", -1.0], ["b", -2.0]]),
        outside(type="Unigram", unk_id=None, vocab=[["a", -1.0], ["b", -2.0], ["<unk>", 0.0]]),
        outside(type="BPE", unk_token="[UNK]", vocab={"a": 0, "b": 1}, merges=[]),
        outside(type="BPE", unk_token="</s>", vocab={"a": 0, "b": 1}, merges=[]),
    ],
)
def test_unknown_letters_need_no_token_in_the_file(content: bytes, open_file: Open) -> None:
    """C13: the library fails on the first unknown letter of such a file."""
    made = open_file(content).tokenizer
    assert made.encode(["a z b"]) == [[0, made.unk, 1, made.eos]]
    assert made.unknowns(["a z b"])[1] == {"z": 1}
    assert open_file(made.to_json().encode()).notes == ()


def test_a_file_on_which_the_library_panics_is_told(open_file: Open) -> None:
    """Its panic is no Exception: `a b` is merged to what the vocabulary does not have."""
    content = outside(type="BPE", vocab={"a": 0, "b": 1}, merges=["a b"])
    with pytest.raises(UserError, match="not a tokeniser that can be read"):
        open_file(content)
