from __future__ import annotations

import json
import re
import warnings
import xml.etree.ElementTree as ElementTree

import pytest

from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.inspection import Piece, Unknown, inspect_cuts, inspect_texts, inspect_tokenizer
from headway.tokens.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from headway.tokens.training import train_tokenizer


def train(kind: str, texts: list[str], size: int = 300) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_tokenizer(TokenizerSettings(kind=kind, size=size), texts)


@pytest.mark.parametrize(
    ("kind", "name", "losses"),
    [
        ("bpe", "byte-level BPE", ()),
        ("character", "character", ("what is not in its vocabulary becomes unknown",)),
        (
            "word",
            "word",
            (
                "text is changed before it is cut (Prepend)",
                "what is not in its vocabulary becomes unknown",
            ),
        ),
        (
            "wordpiece",
            "WordPiece",
            (
                "text is changed before it is cut (BertNormalizer)",
                "blanks between pieces are not kept",
                "what is not in its vocabulary becomes unknown",
            ),
        ),
    ],
)
def test_what_a_tokeniser_is(kind: str, name: str, losses: tuple[str, ...]) -> None:
    tokenizer = train(kind, ["le chat dort"] * 9)
    facts = inspect_tokenizer(tokenizer)
    assert (facts.kind, facts.size, facts.losses) == (name, len(tokenizer), losses)
    assert facts.roles == {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS}
    assert facts.specials == {PAD: 0, UNK: 1, BOS: 2, EOS: 3}
    lengths = [len(each.piece) for each in facts.longest]
    assert lengths == sorted(lengths, reverse=True)
    assert tokenizer.pieces([each.id for each in facts.longest]) == [
        each.piece for each in facts.longest
    ]
    assert json.loads(json.dumps(facts.to_table()))["lossless"] is (not losses)


def test_what_it_makes_of_a_text() -> None:
    tokenizer = train("word", ["un chat dort un un chat"])
    ids = {word: tokenizer.encode([word])[0][0] for word in ("un", "chat", "dort")}
    facts = inspect_texts(tokenizer, ["un chien été", "", "un un chat", "chat été 😀été"])
    assert (facts.lines, facts.words, facts.tokens, facts.unknown) == (4, 9, 10, 5)
    assert (facts.characters, facts.bytes) == (35, 35 + 2 * 3 + 3)
    assert facts.most_unknown == (
        Unknown("été", 3, 1), Unknown("chien", 1, 1), Unknown("😀", 1, 4),
    )  # fmt: skip
    assert facts.most_used == (
        Piece(tokenizer.unk, UNK, 5),
        Piece(ids["un"], "▁un", 3),
        Piece(ids["chat"], "▁chat", 2),
    )
    assert facts.never_used == (ids["dort"],)
    assert facts.rates() == {
        "characters_per_token": 3.5,
        "bytes_per_token": 4.4,
        "tokens_per_word": 10 / 9,
        "unknown_share": 0.5,
    }
    assert json.loads(json.dumps(facts.to_table()))["most_unknown"][0] == {
        "text": "été", "count": 3, "line": 1,
    }  # fmt: skip


def test_no_text_at_all() -> None:
    facts = inspect_texts(train("word", ["un"]), [])
    assert (facts.lines, facts.tokens, facts.rates()["unknown_share"]) == (0, 0, 0.0)


def test_how_lines_are_cut() -> None:
    word = train("word", ["un chat dort"])
    assert inspect_cuts(word, ["un chien dort", ""]).lines == (("▁un", UNK, "▁dort"), ())
    assert str(inspect_cuts(word, ["un chat", "dort"])) == "▁un|▁chat\n▁dort"
    letters = inspect_cuts(train("character", ["un chat"]), ["chat"])
    assert letters.lines == (("c", "h", "a", "t"),)


def test_facts_show_themselves() -> None:
    evil = "<script>alert(1)</script>"
    tokenizer = train("bpe", [evil] * 9, 320)
    shown = [
        inspect_tokenizer(tokenizer)._repr_html_(),
        inspect_texts(tokenizer, [evil])._repr_html_(),
        inspect_texts(train("word", ["a"]), ["<b>"])._repr_html_(),
        inspect_cuts(train("character", [evil]), [evil])._repr_html_(),
        inspect_cuts(tokenizer, [evil])._repr_html_(),
    ]
    for page in shown:
        assert not re.search(r"<(script|s|b)\b", page)
        assert "&lt;" in page
        ElementTree.fromstring(page)
    assert "byte-level BPE" in shown[0]
    assert "100.00%" in shown[2]


def test_what_is_unknown_stands_out() -> None:
    page = inspect_cuts(train("word", ["un chat"]), ["un chien un chat"])._repr_html_()
    looks = [node.get("style") for node in ElementTree.fromstring(page).iter("span")]
    assert len(looks) == 4
    assert looks[0] == looks[2] != looks[3]  # two colours by turns
    assert looks.count(looks[1]) == 1
