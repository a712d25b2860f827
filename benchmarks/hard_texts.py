"""Texts that tokenisers disagree on: spaces, digits, emoji, CJK, code, special tokens spelled out.

Seeded, so that two programs are given the same ones.
"""

from __future__ import annotations

import random
import unicodedata

SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u2003", "\u3000"]
WORDS = ["the", "The", "THE", "it's", "I'LL", "we've", "don’t", "naïve", "Straße", "ﬁne", "e\u0301"]
DIGITS = ["0", "7", "42", "1234", "3.14159", "1,000,000", "299792458", "٣٤٥", "２０２６", "½", "x²"]
EMOJI = ["🙂", "👩‍👩‍👧", "🏳️‍🌈", "👍🏽", "🇫🇷", "☃", "❤️", "🤷🏿‍♀️", "🧑‍💻", "\ufe0f"]
SCRIPTS = [
    "日本語",
    "漢字かな交じり文",
    "한국어",
    "ไทย",
    "हिन्दी",
    "العربية",
    "שָׁלוֹם",
    "Ελληνικά",
    "Ѐжик",
    "𝔘𝔫𝔦",
    "𠜎",
]
CODE = ["def f(x):\n    return x**2", "for(i=0;i<10;++i){", "</div>", "a&&b||!c", "\\n", "#include"]
CODE += [
    "{'k': [1, 2]}",
    "x = `ls -l`",
    "//-->",
    "$HOME/.ssh",
    "https://a.b/c?d=e&f=%20",
    "__init__",
]
MARKS = [
    ".",
    "...",
    "!?",
    "—",
    "'",
    "''",
    '"',
    "‘’",
    "“”",
    "。",
    "、",
    "_",
    "-",
    "--",
    "()",
    "[]",
    "\x7f",
]
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "|>", "<s>", "</s>", "<0x0A>"]
KINDS = (SPACES, WORDS, DIGITS, EMOJI, SCRIPTS, CODE, MARKS, SPECIALS)


def hard_texts(n: int, *, seed: int = 1) -> list[str]:
    """`n` different texts of one to twelve pieces, of which some are random characters."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        found["".join(_piece(draw) for _ in range(draw.randint(1, 12)))] = None
    return list(found)


def _piece(draw: random.Random) -> str:
    if draw.random() < 0.1:
        return "".join(_character(draw) for _ in range(draw.randint(1, 4)))
    if draw.random() < 0.1:
        return str(draw.randrange(10 ** draw.randint(1, 18)))
    return draw.choice(draw.choice(KINDS)) * draw.choice((1, 1, 1, 2, 5))


def _character(draw: random.Random) -> str:
    """Any that means something; of the others, which no text has, llama.cpp makes a piece each."""
    while unicodedata.category(found := chr(draw.randint(1, 0x10FFFF))) in {"Cn", "Co", "Cs"}:
        pass
    return found
