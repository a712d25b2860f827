"""Each mistake in a recipe is one message: what, where, and the nearest name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from headway.base.errors import UserError
from headway.settings.data import BuiltinPairs, PairFiles
from headway.settings.kinds import TranslationRecipe
from headway.settings.recipe import load_recipe

RECURRENT = {"kind": "recurrent"}
FILES = {"source": "a.fr", "target": "a.en"}


def table(model: dict[str, Any] | None = None, train: Any = None) -> dict[str, Any]:
    return {
        "data": {
            "source_language": "fr",
            "target_language": "en",
            "train": train or {"corpus": "builtin:cldr", "lines": 100},
        },
        "tokenizer": {},
        "model": model or {"preset": "transformer-tiny"},
        "train": {"steps": 10},
    }


def message(overrides: dict[str, Any], base: dict[str, Any] | None = None) -> str:
    with pytest.raises(UserError) as caught:
        load_recipe(base or table(), overrides)
    text = str(caught.value)
    assert "\n" not in text
    assert "pydantic" not in text
    return text


@pytest.mark.parametrize(
    ("key", "value", "begins"),
    [
        ("model.n_head", 4, "recipe: unknown key 'model.n_head'; did you mean 'n_heads'? known"),
        ("train.step", 5, "recipe: unknown key 'train.step'; did you mean 'steps'? known here: "),
        ("trian.steps", 5, "recipe: unknown key 'trian'; did you mean 'train'? known here: data,"),
        ("qqqq", 5, "recipe: unknown key 'qqqq'; known here: data, description, evaluate, model,"),
        ("", 5, "recipe: unknown key ''; known here: "),
        ("model.n_heads", 3, "recipe, model: n_heads = 3 does not divide d_model = 128: choose a"),
        ("model.n_kv_heads", 3, "recipe, model: n_heads = 4 is not a multiple of n_kv_heads = 3"),
        (
            "model",
            {"positions": "rotary", "score": "bilinear"},
            "recipe, model: rotary positions show in the dot product of turned queries and keys",
        ),
        ("model.score_rank", 4, "recipe, model: score_rank has no meaning for the score 'scaled"),
        ("model.score", "low_rank_bilinear", "recipe, model: the score 'low_rank_bilinear' needs"),
        ("model.score", "dott", "recipe, model.score: input should be 'dot', 'scaled_dot', 'bil"),
        ("model.dropout", 1.0, "recipe, model.dropout: input should be less than 1, not 1.0"),
        ("model.kind", "rnn", "recipe, model.kind: input should be one of 'transformer', 'recurr"),
        ("model.preset", "transformer-bse", "recipe, model.preset: unknown preset 'transformer-b"),
        (
            "model.preset",
            5,
            "recipe, model.preset: unknown preset '5'; known: bert-base, bert-large",
        ),
        ("model", "big", "recipe, model: a table is needed, not 'big'"),
        ("train.steps", "many", "recipe, train.steps: input should be a valid integer, not 'many'"),
        ("train.steps", 1.5, "recipe, train.steps: input should be a valid integer, not 1.5"),
        ("train.steps", True, "recipe, train.steps: input should be a valid integer, not True"),
        ("train.steps", 0, "recipe, train.steps: input should be greater than 0, not 0"),
        ("train.steps", None, "recipe, train.steps: input should be a valid integer, not None"),
        ("train.learning_rate", "1e-3", "recipe, train.learning_rate: input should be a valid n"),
        ("train.learning_rate", float("inf"), "recipe, train.learning_rate: input should be a fi"),
        ("train.eps", float("nan"), "recipe, train.eps: input should be a finite number, not nan"),
        ("train.dtype", "float16", "recipe, train.dtype: input should be 'auto', 'float32' or 'b"),
        ("train.betas", [0.9], "recipe, train.betas: list should have at least 2 items after va"),
        ("train.betas", [0.9, 1.0], "recipe, train.betas.1: input should be less than 1, not 1.0"),
        ("train.weight_decay", 0.1, "recipe, train: weight_decay is for optimizer = 'adamw' or"),
        ("train.steps.x", 4, "--set train.steps.x: 'steps' is a value, not a table"),
        ("data.target_language", "fr", "recipe, data: the built-in corpus needs two different la"),
        ("data.train.corpus", "x", "recipe, data.train.corpus: input should be 'builtin:cldr', n"),
        ("data.train.linse", 3, "recipe: unknown key 'data.train.linse'; did you mean 'lines'?"),
        ("data.train", 5, "recipe, data.train: a table is needed, not 5"),
        ("tokenizer.joint", False, "recipe: model.tie = 'all' shares one embedding between both"),
    ],
)
def test_a_mistake_is_one_message(key: str, value: Any, begins: str) -> None:
    assert message({key: value}).startswith(begins)


@pytest.mark.parametrize(
    ("model", "begins"),
    [
        ({}, "recipe: the key 'model.kind' is missing; set it"),
        ({"kind": "transformer"}, "recipe: the key 'model.d_model' is missing; set it"),
        (RECURRENT | {"cel": "gru"}, "recipe: unknown key 'model.cel'; did you mean 'cell'?"),
        (
            RECURRENT | {"n_heads": 2},
            "recipe: unknown key 'model.n_heads'; did you mean 'n_layers'",
        ),
        (RECURRENT | {"d_hidden": 7}, "recipe, model: d_hidden = 7 must be even"),
        (RECURRENT | {"score": "x"}, "recipe, model.score: input should be 'none', 'dot', 'scaled"),
        (
            RECURRENT | {"score": "dot", "attend_over": "embeddings"},
            "recipe, model: the score 'dot' compares vectors of one width: d_hidden = 256 but",
        ),
        (
            {"preset": "transformer-tiny", "positions": "rotary", "d_head": 3},
            "recipe, model: rotary positions turn pairs: the head width 3 must be even",
        ),
    ],
)
def test_a_mistake_in_a_model_is_one_message(model: dict[str, Any], begins: str) -> None:
    assert message({}, table() | {"model": model}).startswith(begins)


@pytest.mark.parametrize(
    ("key", "begins"),
    [
        ("model.transformer", "recipe: unknown key 'model.transformer'; "),
        ("transformer", "recipe: unknown key 'transformer'; did you mean 'train'?"),
        ("data.train.files", "recipe: unknown key 'data.train.files'; "),
        ("data.train.builtin", "recipe: unknown key 'data.train.builtin'; "),
        ("tokenizer.bpe", "recipe: unknown key 'tokenizer.bpe'; "),
    ],
)
def test_a_key_called_as_a_member_of_a_union_is_named_in_full(key: str, begins: str) -> None:
    assert message({key: 1}).startswith(begins)


def test_the_keys_named_are_those_of_the_kind_that_is_used() -> None:
    builtin, files = (", ".join(sorted(kind.model_fields)) for kind in (BuiltinPairs, PairFiles))
    known = "recipe: unknown key 'data.train.source'; known here: "
    assert message({"data.train.source": "a.fr"}) == known + builtin
    assert message({"data.train.seed": 3}, table(train=FILES)).endswith(f"known here: {files}")
    assert "n_heads" not in message({"model.x": 1}, table(RECURRENT)).partition("known")[2]
    assert "cell" not in message({"model.x": 1}).partition("known")[2]


def test_missing_keys_are_named() -> None:
    assert message({}, table(train={"source": "a"})) == (
        "recipe: the key 'data.train.target' is missing; set it"
    )
    without = table()
    del without["train"]
    assert message({}, without) == "recipe: the key 'train' is missing; set it"
    assert message({}, table(train={"source": "", "target": "b"})).startswith(
        "recipe, data.train.source: names no file; give it as --set data.train.source=FILE"
    )


def test_an_unknown_key_is_said_before_the_missing_one_that_it_meant() -> None:
    misspelt = table(train={"source": "a", "tarjet": "b"})
    assert message({}, misspelt).startswith("recipe: unknown key 'data.train.tarjet'; did you mean")


def test_settings_are_frozen_and_need_names() -> None:
    recipe = load_recipe(table())
    with pytest.raises(ValidationError, match="frozen"):
        recipe.train.steps = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        TranslationRecipe(table())  # type: ignore[call-arg]


def test_an_integer_may_stand_for_a_number() -> None:
    assert load_recipe(table(), {"train.learning_rate": 1}).train.learning_rate == 1.0
