"""Texts, or pairs of texts, as rows that an encoder reads."""

from __future__ import annotations

from collections.abc import Sequence

from headway.batches.by_length import FramedRows
from headway.batches.pairs import EncodedSide
from headway.tokens.text import TextTokenizer

_TOGETHER = 4096  # texts: the library keeps some 100 bytes a token beside the ids


def framed_rows(
    tokenizer: TextTokenizer,
    texts: Sequence[str],
    seconds: Sequence[str] | None,
    *,
    longest: int,
    n_segments: int,
) -> FramedRows:
    """The rows of at most `longest` ids; where a model tells segments apart, those too."""
    ids, segments = list[list[int]](), list[list[int]]()
    for begin in range(0, len(texts), _TOGETHER):
        some = slice(begin, begin + _TOGETHER)
        given = None if seconds is None else seconds[some]
        for row, of in tokenizer.framed(texts[some], given, longest=longest):
            ids.append(row)
            segments.append([min(each, n_segments - 1) for each in of] if n_segments else of)
    return FramedRows(EncodedSide.of(ids), EncodedSide.of(segments))
