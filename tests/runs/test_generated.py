"""What is told of a text as it grows, and what it is in the end."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from headway.decode.steps import Hypothesis
from headway.runs.generated import Writer
from headway.tokens.text import Roles, TextTokenizer

PIECES = ["a", "b", "<0x0A>", "<0xC3>", "<0xA9>", "<0xE4>"]


def tokenizer() -> TextTokenizer:
    made = Backend(models.BPE({piece: id for id, piece in enumerate(PIECES)}, []))
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return TextTokenizer(made, Roles())


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([0, 2, 5, 1], "a\n\ufffdb"),
        ([3, 4, 5, 0, 1], "é\ufffdab"),  # in the end "é" is two broken letters
        ([0, 3, 4, 1], "aéb"),
        ([0, 5], "a\ufffd"),
    ],
)
@pytest.mark.parametrize("stop", [(), ("bbb",)])
def test_what_was_told_is_not_told_again(ids: list[int], told: str, stop: tuple[str, ...]) -> None:
    made, parts = tokenizer(), list[str]()
    writer = Writer(made, 0, stop, parts.append)
    for id in ids:
        writer.add(id)
    found = writer.finish(Hypothesis(ids, 0.0, 0.0, True))
    assert "".join(parts) == told
    assert found.text == made.decode([ids])[0]
