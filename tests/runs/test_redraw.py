"""BPE dropout in a training: other cuts each epoch, of the same texts, exact at a resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.batches.pairs import EncodedSide
from headway.checkpoint.run import RunFolder
from headway.runs.prepare import prepare
from headway.settings.recipe import load_recipe

TranslationRecipe = Callable[..., dict[str, Any]]


def with_dropout(toy_recipe: TranslationRecipe, rate: float = 0.3, **train: Any) -> dict[str, Any]:
    recipe = toy_recipe("transformer", evaluate_every=100, **train)
    recipe["model"] |= {"d_model": 16, "d_feed_forward": 32, "n_decoder_layers": 1}
    recipe["tokenizer"]["dropout"] = rate
    return recipe


def rows(side: EncodedSide) -> list[list[int]]:
    return [row.tolist() for row in np.split(np.asarray(side.ids), side.starts[1:-1])]


def test_an_epoch_has_the_same_texts_in_its_own_cuts(toy_recipe: TranslationRecipe) -> None:
    recipe = with_dropout(toy_recipe)
    recipe["data"]["max_tokens"] = 9  # some pairs are left out
    made = prepare(load_recipe(recipe))
    assert made.redraw is not None
    assert len(made.train) < 400
    decode = made.tokenizers.target.decode
    plain = rows(made.train.target)
    drawn = [rows(made.redraw.pairs(epoch).target) for epoch in (0, 1)]
    for each in drawn:
        assert decode(each) == decode(plain)
        assert max(map(len, each)) <= 9
    assert drawn[0] != drawn[1] != plain
    again = prepare(load_recipe(recipe), made.tokenizers)
    assert again.redraw is not None
    assert rows(again.redraw.pairs(1).target) == drawn[1]
    sources = rows(made.redraw.pairs(0).source)
    assert made.tokenizers.source.decode(sources) == decode(rows(made.train.source))


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the small vocabulary
def test_the_sides_and_the_seeds_are_drawn_apart(toy_recipe: TranslationRecipe) -> None:
    recipe = with_dropout(toy_recipe)
    recipe["data"]["train"]["target"] = recipe["data"]["train"]["source"]
    made = prepare(load_recipe(recipe))
    other = prepare(load_recipe(recipe | {"seed": 2}), made.tokenizers)
    assert made.redraw is not None
    assert other.redraw is not None
    assert rows(made.train.source) == rows(made.train.target)
    drawn = made.redraw.pairs(0)
    assert rows(drawn.source) != rows(drawn.target)
    assert rows(drawn.source) != rows(other.redraw.pairs(0).source)


def test_a_stopped_run_draws_what_it_would_have_drawn(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    """Through the end of an epoch, which has some 25 batches here."""
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    headway.train(with_dropout(toy_recipe, steps=40), out=unbroken)
    headway.train(with_dropout(toy_recipe, steps=20), out=broken)
    headway.train(None, out=broken, resume=True, train={"steps": 40})
    ours, theirs = (RunFolder(run).weights() for run in (broken, unbroken))
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    plain = tmp_path / "plain"
    headway.train(with_dropout(toy_recipe, rate=0.0, steps=40), out=plain)
    others = RunFolder(plain).weights()
    assert any(not torch.equal(ours[name], others[name]) for name in ours)
    stored = json.loads((unbroken / "tokenizer.json").read_text(encoding="utf-8"))
    assert stored["model"]["dropout"] is None
    assert (unbroken / "tokenizer.json").read_bytes() == (plain / "tokenizer.json").read_bytes()


def test_it_is_for_bpe(toy_recipe: TranslationRecipe, tmp_path: Path) -> None:
    recipe = toy_recipe("plain")
    recipe["tokenizer"]["dropout"] = 0.1
    with pytest.raises(UserError, match="dropout is for kind = 'bpe'"):
        headway.train(recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
