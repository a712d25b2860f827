from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.runs.prepare import Prepared, prepare
from headway.settings.recipe import load_recipe

TranslationRecipe = Callable[..., dict[str, Any]]


@pytest.fixture
def prepared(toy_recipe: TranslationRecipe, tmp_path: Path) -> Callable[..., Prepared]:
    """What becomes of pairs (source, target) under a word tokeniser."""

    def make(pairs: list[tuple[str, str]], **tokenizer: object) -> Prepared:
        recipe = toy_recipe("plain", batch_tokens=4)
        for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (tmp_path / side).write_text("\n".join(texts) + "\n", encoding="utf-8")
        files = {side: str(tmp_path / side) for side in ("source", "target")}
        recipe["data"] |= dict.fromkeys(("train", "valid", "test"), files)
        recipe["tokenizer"] = {"kind": "word", "size": 90} | tokenizer
        return prepare(load_recipe(recipe))

    return make


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the small vocabulary
@pytest.mark.parametrize("joint", [True, False])
def test_unknown_words_are_counted_and_shown_a_side(
    joint: bool, prepared: Callable[..., Prepared]
) -> None:
    pairs = [("un chat", "one cat")] * 4 + [("un lynx", "one cat")]
    notices = prepared(pairs, min_count=2, joint=joint).notices
    assert notices[0].startswith("train: 3 pairs that were there before kept")
    assert notices[1] == "5 training pairs, 15 target tokens"
    assert notices[2:] == ("10.0% of the source tokens are unknown, such as 'lynx'",)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pairs_that_are_too_long_or_empty_are_counted(prepared: Callable[..., Prepared]) -> None:
    pairs = [("un chat", "one cat")] * 3 + [("chat " * 64, "cat"), ("un", "cat " * 70), ("", "x")]
    found = prepared(pairs)
    assert len(found.train) == 3
    assert tuple(
        notice for notice in found.notices if not notice.startswith(("valid", "test"))
    ) == (
        "train: 1 pairs with an empty side left out",
        "train: 2 pairs that were there before kept (data.duplicates = 'drop' leaves them out)",
        "3 training pairs, 9 target tokens",
        "2 pairs longer than 64 tokens left out",
    )
    assert "valid: 1 pairs with an empty side left out" in found.notices
    assert set(found.hashes) == {"train", "valid", "test"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pairs_that_do_not_fill_a_batch_are_refused(prepared: Callable[..., Prepared]) -> None:
    with pytest.raises(
        UserError, match="have 3 target tokens in 1 pairs, fewer than one batch of 4"
    ):
        prepared([("un chat", "one cat")])
