"""The coordinate check at toy size: μP is flat, the standard parametrisation is not."""

from __future__ import annotations

import pytest

from headway.base.errors import UserError
from headway.scaling.coordinates import MUP, STANDARD, coordinate_check, slopes
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe


def recipe(optimizer: str) -> LanguageRecipe:
    model = {"n_layers": 2, "d_model": 32, "d_feed_forward": 64, "n_heads": 2, "max_length": 16}
    keys = {f"model.{key}": value for key, value in model.items()}
    keys |= {"data.length": 16, "tokenizer.size": 64, "train.optimizer": optimizer}
    found = load_recipe("lm/stdlib", {**keys, "train.learning_rate": 3e-3})
    assert isinstance(found, LanguageRecipe)
    return found


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_changes_do_not_grow_with_the_width_by_mup(optimizer: str) -> None:
    found = coordinate_check(recipe(optimizer), [32, 64, 128, 256], steps=3)
    grows = slopes(found)
    assert grows.keys() == {STANDARD, MUP}
    for part in ("attention", "feed-forward", "logits"):
        assert grows[STANDARD][part] > 0.4, part
    for part, slope in grows[MUP].items():
        assert abs(slope) < (0.15 if part == "logits" else 0.25), part


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match="two widths"):
        coordinate_check(recipe("adamw"), [64])
    with pytest.raises(UserError, match=r"no whole number of heads.*multiple of 16"):
        coordinate_check(recipe("adamw"), [32, 40])
