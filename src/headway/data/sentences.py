"""Where the sentences of a text begin, as far as signs and line ends tell."""

from __future__ import annotations

import re

# The end of a line, or of a sentence before a blank; Chinese and Japanese have no blank there
_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*|\n+""")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, which joined are the text: its lines, and the sentences of each.

    A blank before a sentence is its own, a line end that of the one before. "Mr. Smith" is parted:
    this is for models that are to tell whether one stretch of text follows another.
    """
    found: list[str] = []
    begin = 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        piece, begin = text[begin:end], end
        if found and not (piece.strip() and found[-1].strip()):
            found[-1] += piece
        else:
            found.append(piece)
    return found
