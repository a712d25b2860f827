"""From weights between tokens to links between words."""

from __future__ import annotations

import pytest

from headway.lens.alignment import Alignment
from headway.lens.words import token_words


@pytest.mark.parametrize(
    ("text", "spans", "words"),
    [
        ("un chat", [(0, 2), (2, 7), (0, 0)], (0, 1, None)),  # the blank is the next token's
        ("un chat", [(0, 2), (2, 3), (3, 5), (5, 7)], (0, None, 1, 1)),
        ("  a\t\tb ", [(0, 2), (2, 3), (3, 6), (6, 7)], (None, 0, 1, None)),
        ("1\u00a0000 €", [(0, 1), (1, 2), (2, 5), (5, 7)], (0, 0, 0, 1)),
        ("a b c", [(0, 5), (2, 5)], (0, 1)),  # over several words: the first
        ("", [], ()),
    ],
)
def test_tokens_of_words(
    text: str, spans: list[tuple[int, int]], words: tuple[int | None, ...]
) -> None:
    assert token_words(text, spans) == words


def test_weights_are_summed_over_source_and_averaged_over_target_tokens() -> None:
    found = Alignment(
        source=["un", "▁ch", "at", "</s>"],
        target=["a", "▁c", "at", "</s>"],
        weights=[
            [0.4, 0.3, 0.3, 0.0],  # the word "chat" has 0.6, though "un" has the largest token
            [0.1, 0.2, 0.0, 0.7],  # the end symbol is no word
            [0.7, 0.1, 0.1, 0.1],
            [0.0, 0.0, 0.0, 1.0],
        ],
        title="",
        source_words=(0, 1, 1),
        target_words=(0, 1, 1),
    )
    weights = found.word_weights()
    assert weights[0] == pytest.approx({0: 0.4, 1: 0.6})
    assert weights[1] == pytest.approx({0: 0.4, 1: 0.2})
    assert found.links() == [(1, 0), (0, 1)]


def test_a_side_without_words_has_no_links() -> None:
    ends = Alignment(["</s>"], ["a", "</s>"], [[1.0], [1.0]], "", target_words=(0,))
    assert ends.links() == []
    assert Alignment(["un", "</s>"], ["</s>"], [[1.0, 0.0]], "", source_words=(0,)).links() == []
    assert Alignment([], [], [], "").links() == []


def test_equal_weights_link_to_the_first_word() -> None:
    found = Alignment(["a", "b"], ["c"], [[0.5, 0.5]], "", source_words=(0, 1), target_words=(0,))
    assert found.links() == [(0, 0)]
