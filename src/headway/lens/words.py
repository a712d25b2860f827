"""From tokens to the words that they are pieces of."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What tools that read alignments take for blanks. A no-break space is none: "1 000" is one word.
_WORD = re.compile(r"[^ \t\n\r\x0b\x0c]+")


def token_words(text: str, spans: Sequence[tuple[int, int]]) -> tuple[int | None, ...]:
    """The word of `text`, counted from 0, that each token belongs to; None for mere blanks.

    Words stand between blanks (space, tab and the other ASCII ones); `spans` are the characters
    of each token, first and one after the last. A token that reaches over several words, which
    tokenisers rarely make, counts to the first.
    """
    word_at: list[int | None] = [None] * len(text)
    for number, match in enumerate(_WORD.finditer(text)):
        word_at[match.start() : match.end()] = [number] * len(match[0])
    return tuple(
        next((word for word in word_at[first:last] if word is not None), None)
        for first, last in spans
    )
