"""Lists of tokens that other tools write: a list of words is read, the others are told by name."""

from __future__ import annotations

import re

from headway.base.errors import UserError
from headway.tokens.kinds import UNK
from headway.tokens.specials import NAMES, File

_COUNTED = re.compile(r"\S+ \d+")
_MERGE = re.compile(r"\S+ \S+( \d+)?")
_SCORED = re.compile(r".+\t-?\d+(\.\d+)?(e-?\d+)?")
_CONVERT = (
    "from Python, transformers writes a tokenizer.json of it:"
    " AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT)"
)
_TRAIN = "learn one from the same text: headway tokenizer train TEXT --out tokenizer.json"
_FIRST_COLUMN = "for a list of words, keep its first column: cut -d' ' -f1 FILE > words.txt"


def word_list(data: bytes, where: str) -> File:
    """The tokenizer.json of a plain list of words, one a line: word i has id i, counted from 0.

    Its words stand between blanks. UserError for a list of another kind, saying which it is, and
    for one with empty lines or the same word twice.
    """
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        binary = b"<unk>" in data[:64]
        what = "this is a SentencePiece model" if binary else "not a tokenizer.json, and not text"
        raise UserError(what, where=where, todo=_CONVERT) from None
    words = [line.removesuffix("\r") for line in lines]
    while words and not words[-1]:
        words.pop()
    if not words:
        raise UserError("the file is empty", where=where)
    _refuse_other_lists(words, where)
    known: dict[str, int] = {}
    for number, word in enumerate(words, 1):
        if word in known or not word or word.split() != [word]:
            again = f"'{word}' stands there for the second time"
            fault = again if word in known else "not one word"
            todo = "name a tokenizer.json, or a list of words: one a line, each once"
            raise UserError(fault, where=f"{where}:{number}", todo=todo)
        known[word] = number - 1
    return _words_between_blanks(known)


def _refuse_other_lists(lines: list[str], where: str) -> None:
    """UserError if the lines are of a kind whose name we know."""
    first, rest = lines[0], lines[1:] or lines
    what, todo = None, _TRAIN
    if first.startswith("#version") and any("</w>" in line for line in lines):
        what = "these are the codes of subword-nmt (merges without a vocabulary)"
    elif first.startswith("#version"):
        what, todo = "these are the merges of a byte-level BPE without its vocabulary", _CONVERT
    elif all("\t" in line and _SCORED.fullmatch(line) for line in lines):
        what, todo = "this is the .vocab of a SentencePiece model (pieces and scores)", _CONVERT
    elif all(_COUNTED.fullmatch(line) for line in lines):
        marked = any("@@ " in line for line in lines)
        what = "this is a counted list of " + (
            "subwords, as subword-nmt and fairseq write it; its codes are in another file"
            if marked
            else "words, as fairseq's dict.txt"
        )
        todo = _TRAIN if marked else _FIRST_COLUMN
    elif all(_MERGE.fullmatch(line) for line in rest):
        what = "these are merges of BPE without a vocabulary (codes of subword-nmt or fastBPE)"
    elif any(line.startswith("##") and len(line) > 2 for line in lines) and "[UNK]" in lines:
        what, todo = "this is the vocab.txt of a BERT, which does not say how text is cut", _CONVERT
    elif any(line.startswith("▁") and len(line) > 1 for line in lines):
        what, todo = "this is a list of SentencePiece pieces without their scores", _CONVERT
    elif any(line.endswith("@@") and len(line) > 2 for line in lines):
        what = "this is a list of subwords of subword-nmt; its codes are in another file"
    if what is not None:
        raise UserError(what, where=where, todo=todo)


def _words_between_blanks(known: dict[str, int]) -> File:
    unk = next((name for name in NAMES["unk"] if name in known), UNK)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": known, "unk_token": unk},
    }
