"""Settings of data: which kind of part a table is, and one message for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from headway.base.errors import UserError
from headway.settings.base import parse
from headway.settings.data import BuiltinPairs, DataSettings, HubPairs, PairFiles, TableFile
from headway.settings.rows import LabelSettings
from headway.settings.toml import dump_toml
from headway.settings.training import FineTuneSettings

PARTS: dict[type, dict[str, Any]] = {
    PairFiles: {"source": "a.fr", "target": "a.en"},
    TableFile: {"file": "a.tsv", "source": "fr", "target": "en"},
    HubPairs: {"hub": "some/pairs", "source": "translation.fr", "target": "translation.en"},
    BuiltinPairs: {"corpus": "builtin:cldr", "lines": 3},
}


def data(train: dict[str, Any]) -> DataSettings:
    table = {"source_language": "fr", "target_language": "en", "train": train}
    return parse(DataSettings, table, where="recipe")


@pytest.mark.parametrize("kind", PARTS)
def test_a_key_tells_the_kind_of_a_part(kind: type) -> None:
    made = data(PARTS[kind])
    assert type(made.train) is kind
    again = parse(DataSettings, made.to_table(), where="recipe")
    assert again == made
    assert dump_toml(again.to_table())


def test_pairs_are_pairs_in_all_parts() -> None:
    part = {"file": "a.tsv", "text": 0, "label": 1}
    pair = {**part, "second": 2}
    for train, valid, told in ((pair, part, "train"), (part, pair, "valid")):
        with pytest.raises(UserError, match=rf"data\.{told} has a second text, and data\."):
            parse(LabelSettings, {"kind": "labels", "train": train, "valid": valid}, where="recipe")


@pytest.mark.parametrize(("n", "steps"), [(10, 3), (20, 3), (33, 6), (40, 6), (3200, 300)])
def test_epochs_are_passes_over_few_rows_too(n: int, steps: int) -> None:
    """The last batch of a pass counts as one, however few rows it has."""
    assert FineTuneSettings(epochs=3.0, batch_rows=32).for_rows(n).steps == steps


def test_columns_by_number_survive_being_written_down() -> None:
    made = data({"file": "a.tsv", "source": 1, "target": 0}).to_table()["train"]
    assert (made["source"], made["target"]) == (1, 0)


def test_the_two_languages_turn_the_direction() -> None:
    """Their names stand in paths and columns; what is not one of the two stays as it is."""
    files = {
        "source": "${source_language}/{x}/a.{source_language}.gz",
        "target": "{target_language}/a.{target_language}",
    }
    table = {
        "source_language": "fr",
        "target_language": "en",
        "train": files,
        "test": {"hub": "s", "source": "t.{source_language}", "target": "t.{target_language}"},
    }
    for source, target in (("fr", "en"), ("en", "fr")):
        table |= {"source_language": source, "target_language": target}
        made = parse(DataSettings, table, where="recipe")
        assert made.to_table()["train"]["source"] == f"${{source_language}}/{{x}}/a.{source}.gz"
        assert made.to_table()["train"]["target"] == f"{target}/a.{target}"
        assert isinstance(made.test, HubPairs)
        assert (made.test.source, made.test.target) == (f"t.{source}", f"t.{target}")
    del table["source_language"]
    with pytest.raises(UserError, match="source_language"):
        parse(DataSettings, table, where="recipe")


@pytest.mark.parametrize(
    ("kind", "change", "begins"),
    [
        (TableFile, {"source": True}, "recipe, train.source: a column is told by its name"),
        (TableFile, {"source": -1}, "recipe, train.source: a column is told by its name"),
        (TableFile, {"target": ""}, "recipe, train.target: a column is told by its name"),
        (TableFile, {"target": 1}, "recipe, train: source and target must both be names"),
        (TableFile, {"target": "fr"}, "recipe, train: source and target are the same"),
        (TableFile, {"file": ""}, "recipe, train.file: names no file"),
        (TableFile, {"separator": "||"}, "recipe, train.separator: one character parts"),
        (TableFile, {"separator": '"'}, "recipe, train.separator: one character parts"),
        (TableFile, {"format": "xlsx"}, "recipe, train.format: input should be 'tsv'"),
        (TableFile, {"spearator": ";"}, "recipe: unknown key 'train.spearator'; did you"),
        (HubPairs, {"source": ""}, "recipe, train: hub, source and target need a name"),
        (HubPairs, {"target": "translation.fr"}, "recipe, train: source and target are the"),
        (HubPairs, {"errors": "skip"}, "recipe: unknown key 'train.errors'"),
        (PairFiles, {"bad": "some"}, "recipe, train.bad: input should be 'few', 'drop' or"),
        (PairFiles, {"errors": "ignore"}, "recipe, train.errors: input should be 'strict'"),
    ],
)
def test_a_mistake_is_one_message_about_one_key(
    kind: type, change: dict[str, Any], begins: str
) -> None:
    with pytest.raises(UserError) as caught:
        data(PARTS[kind] | change)
    assert str(caught.value).startswith(begins)


@pytest.mark.parametrize("kind", PARTS)
def test_a_missing_key_is_named(kind: type) -> None:
    for key in PARTS[kind]:
        if key not in ("file", "hub", "corpus"):
            without = {name: value for name, value in PARTS[kind].items() if name != key}
            with pytest.raises(UserError, match=f"the key 'train.{key}' is missing"):
                data(without)


@pytest.mark.parametrize("share", [0, 0.0, 0.25, 0.4999])
def test_a_share_is_held_out(share: float) -> None:
    table = {"source_language": "a", "target_language": "b", "train": PARTS[PairFiles]}
    made = parse(DataSettings, table | {"held_out": share}, where="recipe")
    assert made.held_out == share
    assert parse(DataSettings, made.to_table(), where="recipe") == made


@pytest.mark.parametrize(
    ("change", "begins"),
    [
        ({"held_out": 0.5}, "recipe, held_out: input should be less than 0.5"),
        ({"held_out": -0.1}, "recipe, held_out: input should be greater than or equal to 0"),
        ({"held_out": "few"}, "recipe, held_out: input should be a valid number"),
        (
            {"held_out": 0.1, "valid": PARTS[PairFiles], "test": PARTS[TableFile]},
            "recipe: held_out = 0.1 makes the parts that a recipe does not have, and this one has "
            "both valid and test: set held_out = 0",
        ),
    ],
)
def test_what_cannot_be_held_out_is_one_message(change: dict[str, Any], begins: str) -> None:
    table = {"source_language": "a", "target_language": "b", "train": PARTS[PairFiles]}
    with pytest.raises(UserError) as caught:
        parse(DataSettings, table | change, where="recipe")
    assert str(caught.value).startswith(begins)
