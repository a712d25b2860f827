"""Recipes: presets, overrides, files, the resolved recipe and its round trip through TOML."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.base.errors import UserError
from headway.settings import kinds
from headway.settings.kinds import TranslationRecipe
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    StackSettings,
    TransformerSettings,
)
from headway.settings.presets import PRESETS, expand_preset
from headway.settings.recipe import load_recipe, parse_overrides, shipped_recipes
from headway.settings.toml import dump_toml

TABLE: dict[str, Any] = {
    "data": {
        "source_language": "fr",
        "target_language": "en",
        "train": {"corpus": "builtin:cldr", "lines": 100},
        "valid": {"source": 'c:\\a "quoted"\tpath.fr', "target": "é\u2028\x7f.en"},
    },
    "tokenizer": {"kind": "word"},
    "model": {"preset": "transformer-tiny", "n_heads": 2},
    "train": {"steps": 10, "eps": 1e-12, "learning_rate": 1e16},
}


KINDS = {
    "transformer": TransformerSettings,
    "decoder": DecoderSettings,
    "encoder": EncoderSettings,
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_settings(name: str) -> None:
    row = expand_preset({"preset": name}, where="here")
    assert row == PRESETS[name]
    made = KINDS[row["kind"]](**row)
    assert made.d_model == made.n_heads * made.head_width
    if row["kind"] == "transformer":
        facts = (made.order, made.norm, made.positions, made.tie, made.scale_embedding)
        assert facts == ("post", "layer", "sinusoidal", "all", True)


def test_the_published_sizes() -> None:
    sizes = {
        name: (row["n_encoder_layers"], row["d_model"], row["d_feed_forward"], row["n_heads"])
        for name, row in PRESETS.items()
        if row["kind"] == "transformer"
    }
    assert sizes["transformer-base"] == (6, 512, 2048, 8)
    assert sizes["transformer-big"] == (6, 1024, 4096, 16)
    assert sizes["transformer-tiny"] == (4, 128, 256, 4)


def test_a_models_own_keys_win_over_its_preset() -> None:
    model = load_recipe(TABLE).model
    assert isinstance(model, TransformerSettings)
    assert (model.n_heads, model.d_model, model.dropout) == (2, 128, 0.3)
    assert PRESETS["transformer-tiny"]["n_heads"] == 4
    assert expand_preset({"kind": "recurrent"}, where="here") == {"kind": "recurrent"}


def test_widths_follow_from_other_settings() -> None:
    layout: dict[str, Any] = {"d_model": 12, "d_feed_forward": 8, "n_heads": 4}
    assert (StackSettings(**layout).head_width, StackSettings(**layout).kv_heads) == (3, 4)
    chosen = StackSettings(**layout, d_head=5, n_kv_heads=2)
    assert (chosen.head_width, chosen.kv_heads) == (5, 2)


@pytest.mark.parametrize("model", [{}, {"kind": "recurrent", "score": "additive"}])
def test_a_resolved_recipe_loads_as_itself(model: dict[str, Any], tmp_path: Path) -> None:
    recipe = load_recipe(TABLE | {"model": model or TABLE["model"]})
    text = recipe.to_toml()
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    again = load_recipe(path)
    assert again == recipe
    assert again.to_toml() == text
    assert "preset" not in text
    for name in TranslationRecipe.model_fields["train"].annotation.model_fields:
        assert f"\n{name} = " in text, f"the default of {name} is not written out"


PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
KEYS = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
TABLES = st.recursive(
    st.dictionaries(KEYS, PLAIN | st.lists(PLAIN, max_size=3), max_size=4),
    lambda inner: st.dictionaries(KEYS, PLAIN | inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(TABLES)
def test_any_table_survives_toml(table: dict[str, Any]) -> None:
    assert tomllib.loads(dump_toml(table)) == table


def test_toml_refuses_what_it_does_not_hold() -> None:
    with pytest.raises(TypeError, match="holds no NoneType"):
        dump_toml({"a": None})


@pytest.mark.parametrize(
    ("pair", "key", "value"),
    [
        ("train.steps=10", "train.steps", 10),
        ("train.learning_rate=1e-3", "train.learning_rate", 1e-3),
        ("train.betas=[0.9, 0.98]", "train.betas", [0.9, 0.98]),
        ("tokenizer.joint=false", "tokenizer.joint", False),
        ("train.dtype=float32", "train.dtype", "float32"),
        ('train.dtype="float32"', "train.dtype", "float32"),
        ("data.train.source=dir/a=b.fr", "data.train.source", "dir/a=b.fr"),
        ("description=", "description", ""),
        (" seed = 3", "seed", 3),
    ],
)
def test_overrides_are_toml_where_they_can_be(pair: str, key: str, value: Any) -> None:
    found = parse_overrides([pair])
    assert found == {key: value}
    assert type(found[key]) is type(value)


@pytest.mark.parametrize("pair", ["train.steps", "=4", " =4"])
def test_an_override_has_a_key_and_a_value(pair: str) -> None:
    with pytest.raises(UserError, match=r"--set: '.*' is not key=value; write key=value"):
        parse_overrides([pair])


def test_overrides_reach_into_tables_and_change_no_input() -> None:
    recipe = load_recipe(TABLE, {"train.steps": 20, "model": {"n_heads": 8}, "seed": 5})
    assert recipe.train.steps == 20
    assert recipe.train.eps == 1e-12
    assert isinstance(recipe.model, TransformerSettings)
    assert (recipe.model.n_heads, recipe.model.d_model) == (8, 128)
    assert recipe.seed == 5
    assert TABLE["train"]["steps"] == 10


def test_the_last_override_of_a_key_wins() -> None:
    assert parse_overrides(["seed=1", "seed=2"]) == {"seed": 2}


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (b"seed = 1\nseed = \n", "not TOML: Invalid value (at line 2"),
        (b'description = "\xff"', "not UTF-8: byte 16"),
        (b"seed = " + b"9" * 5000, "not TOML: Exceeds the limit"),
    ],
)
def test_a_broken_file_is_named_with_the_place(content: bytes, begins: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: {begins}")


def test_a_byte_order_mark_at_the_start_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + load_recipe(TABLE).to_toml().encode())
    assert load_recipe(path) == load_recipe(TABLE)


def test_a_recipe_that_is_not_there_is_said() -> None:
    with pytest.raises(UserError, match=r"^nowhere\.toml: there is no such recipe file; check"):
        load_recipe("nowhere.toml")


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "x.toml").mkdir()
    with pytest.raises(UserError, match=r"x\.toml: cannot be read: Is a directory"):
        load_recipe(tmp_path / "x.toml")


def test_a_number_beyond_all_reading_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train\.steps: input should be a valid integer"):
        load_recipe(TABLE, parse_overrides(["train.steps=" + "9" * 5000]))


@pytest.mark.skipif(not shipped_recipes(), reason="no recipes are shipped yet")
def test_an_unknown_recipe_names_the_nearest() -> None:
    name = next(iter(shipped_recipes()))
    with pytest.raises(UserError, match=f"unknown recipe '{name}x'; did you mean '{name}'"):
        load_recipe(f"{name}x")


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_are_whole(name: str) -> None:
    parts = {"pairs": ("source", "target"), "tatoeba": ("file",), "sft/pairs": ("file",)}
    begin = {"glue": "bert-tiny", "sft": "gpt2"}.get(name.partition("/")[0])
    wanted = {f"data.train.{key}": "mine" for key in parts.get(name, ())}
    if begin is not None:  # the settings of what it begins from are filled in by a run
        wanted |= {"model.from": "mine", "model.preset": begin}
    recipe = load_recipe(name, wanted)
    assert recipe.description
    assert load_recipe(tomllib.loads(recipe.to_toml())) == recipe
    table = recipe.to_table()
    assert type(recipe) is kinds.KINDS[table["data"]["kind"], table["model"]["kind"]]


def test_settings_are_known_without_torch() -> None:
    code = """
import sys
from headway.settings.recipe import load_recipe, shipped_recipes
for name in shipped_recipes():
    if name.startswith("cldr/"):
        load_recipe(name)
heavy = {"torch", "matplotlib", "tokenizers", "sacrebleu", "babel"} & set(sys.modules)
sys.exit(", ".join(sorted(heavy)) or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
