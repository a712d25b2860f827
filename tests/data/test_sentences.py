"""Where sentences begin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.sentences import split_sentences

TEXT = st.text(alphabet="ab.!?\"'() \n\t。」", max_size=60)


@given(TEXT)
def test_the_sentences_are_the_text_and_none_is_blank(text: str) -> None:
    found = split_sentences(text)
    assert "".join(found) == text
    if text.strip():
        assert all(piece.strip() for piece in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three", ["One.", " Two!", " Three"]),
        ('He said "no." She left.', ['He said "no."', " She left."]),
        ("a line\n    another\n\n\nthird\n", ["a line\n", "    another\n\n\n", "third\n"]),
        ("3.14 and e.g.this", ["3.14 and e.g.this"]),
        ("wait... what?!", ["wait...", " what?!"]),
        ("一。二！三", ["一。", "二！", "三"]),
        ("no wit , only gags . \n", ["no wit , only gags . \n"]),
        ("\n \n first", ["\n \n first"]),
        ("", [""]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected
