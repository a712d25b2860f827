"""Tables of the documentation that repeat what the code says, held to it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
from babel import Locale

from headway.cli.main import app
from headway.data.cldr.inventory import KINDS, inventory
from headway.settings.base import Settings
from headway.settings.data import (
    BuiltinPairs,
    DataSettings,
    HubPairs,
    PairFiles,
    TableFile,
)
from headway.settings.documents import (
    BuiltinTexts,
    DocumentSettings,
    HubTexts,
    MaskingSettings,
    TextFiles,
    TextTable,
)
from headway.settings.kinds import KINDS as RECIPES
from headway.settings.kinds import TranslationRecipe
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    RecurrentSettings,
    TransformerSettings,
)
from headway.settings.planned import PlannedSettings
from headway.settings.presets import PRESETS
from headway.settings.rows import (
    AnswerSettings,
    AnswerTable,
    HubAnswers,
    HubLabels,
    LabelSettings,
    LabelTable,
)
from headway.settings.tokenizer import PairTokenizerSettings
from headway.settings.training import (
    EvaluateSettings,
    FineTuneSettings,
    LabelEvaluateSettings,
    LanguageTrainSettings,
    LoraSettings,
    MupSettings,
    TextEvaluateSettings,
    TextTrainSettings,
    TrainSettings,
)

DOCS = Path(__file__).parents[2] / "docs"
RECIPE = (DOCS / "reference/recipe.md").read_text(encoding="utf-8")
SOURCES = "`[data.train.NAME]` of "
PARTS = "`[data.train]`, `[data.valid]`, `[data.test]` of "
TABLES: list[tuple[str, str, type[Settings]]] = [
    ("Top", "", TranslationRecipe),
    ("`[data]`", "data.", DataSettings),
    (f"{PARTS}two files", "", PairFiles),
    (f"{PARTS}one table", "", TableFile),
    (f"{PARTS}a data set of the hub", "", HubPairs),
    (f"{PARTS}the built-in corpus", "", BuiltinPairs),
    ("`[tokenizer]`", "tokenizer.", PairTokenizerSettings),
    ('`[model]` with `kind = "transformer"`', "model.", TransformerSettings),
    ('`[model]` with `kind = "recurrent"`', "model.", RecurrentSettings),
    ("`[train]`", "train.", TrainSettings),
    ("`[evaluate]`", "evaluate.", EvaluateSettings),
    ("`[data]` of documents", "data.", DocumentSettings),
    (f"{SOURCES}the interpreter's own text", "", BuiltinTexts),
    ("`[masking]`", "masking.", MaskingSettings),
    ("`[evaluate]` with documents or answers", "evaluate.", TextEvaluateSettings),
    ("`[data]` of labelled texts", "data.", LabelSettings),
    ("`[data]` of prompts and answers", "data.", AnswerSettings),
    ("`[train.lora]`", "train.lora.", LoraSettings),
    ("`[train.mup]`", "train.mup.", MupSettings),
    ("`[plan]`", "plan.", PlannedSettings),
    ("`[evaluate]` with labels", "evaluate.", LabelEvaluateSettings),
]
# What these have beside another table of the page, or with another default
FURTHER: list[tuple[str, str, type[Settings], type[Settings]]] = [
    (f"{SOURCES}files of text", "", TextFiles, PairFiles),
    (f"{SOURCES}a table", "", TextTable, TableFile),
    (f"{SOURCES}a data set of the hub", "", HubTexts, HubPairs),
    ('`[model]` with `kind = "decoder"`', "model.", DecoderSettings, TransformerSettings),
    ('`[model]` with `kind = "encoder"`', "model.", EncoderSettings, TransformerSettings),
    ("`[train]` with documents", "train.", TextTrainSettings, TrainSettings),
    ("`[train]` of a causal language model", "train.", LanguageTrainSettings, TextTrainSettings),
    (f"{PARTS}labelled texts", "", LabelTable, TableFile),
    (f"{PARTS}labelled texts of the hub", "", HubLabels, HubPairs),
    (f"{PARTS}prompts and answers", "", AnswerTable, TableFile),
    (f"{PARTS}prompts and answers of the hub", "", HubAnswers, HubPairs),
    ("`[train]` of fine-tuning", "train.", FineTuneSettings, TrainSettings),
]


def rows(page: str) -> list[list[str]]:
    """The cells of the table rows of some text, without the head."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def section(page: str, heading: str) -> str:
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def choices(annotation: Any) -> list[str]:
    """The names among which a key chooses; none for other types."""
    if get_origin(annotation) is Literal:
        return [name for part in get_args(annotation) for name in choices(part) or [part]]
    return []


def wanted(kind: type[Settings], prefix: str) -> dict[str, str]:
    """The keys of settings and their defaults as TOML; tables have their own sections."""
    found = {}
    for name, field in kind.model_fields.items():
        in_sections_of_its_own = kind is TranslationRecipe and name not in ("description", "seed")
        tells_models_apart = name == "kind" and prefix == "model."
        if in_sections_of_its_own:
            continue
        if field.is_required() or tells_models_apart:
            default = "required"
        else:
            default = "–" if field.default is None else f"`{json.dumps(field.default)}`"
        found[f"`{prefix}{field.alias or name}`"] = default
    return found


def check_choices(table: list[list[str]], prefix: str, kind: type[Settings]) -> None:
    """That each key's row has the names among which it chooses."""
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    for key, value, *_ in table:
        named = choices(fields[key.strip("`").removeprefix(prefix)].annotation)
        if named:
            assert re.findall(r'"([^"]+)"', value) == named, key


@pytest.mark.parametrize(
    ("heading", "prefix", "kind"), TABLES, ids=[kind.__name__ for _, _, kind in TABLES]
)
def test_the_page_of_recipe_keys_has_all(heading: str, prefix: str, kind: type[Settings]) -> None:
    table = rows(section(RECIPE, heading))
    assert sorted((key, default) for key, _, default, *_ in table) == sorted(
        wanted(kind, prefix).items()
    )
    check_choices(table, prefix, kind)


@pytest.mark.parametrize(
    ("heading", "prefix", "kind", "other"),
    FURTHER,
    ids=[kind.__name__ for _, _, kind, _ in FURTHER],
)
def test_the_page_of_recipe_keys_has_what_differs(
    heading: str, prefix: str, kind: type[Settings], other: type[Settings]
) -> None:
    table, known = rows(section(RECIPE, heading)), wanted(other, prefix).items()
    found = {key: default for key, _, default, *_ in table}
    assert found == dict(wanted(kind, prefix).items() - known)
    check_choices(table, prefix, kind)


def test_the_page_of_recipe_keys_has_every_table() -> None:
    tables = {name for kind in RECIPES.values() for name in kind.model_fields}
    tables -= {"description", "seed"}
    found = {prefix.removesuffix(".") for _, prefix, _ in TABLES if prefix}
    assert found == tables | {"train.lora", "train.mup"}


def test_the_page_of_recipe_keys_names_the_presets() -> None:
    text = section(RECIPE, '`[model]` with `kind = "transformer"`').split("\n| ")[0]
    translators = {name for name, row in PRESETS.items() if row["kind"] == "transformer"}
    assert set(re.findall(r'"(transformer-\w+)"', text)) == translators


def test_the_page_of_the_corpus_shows_what_is_in_it() -> None:
    page = (DOCS / "explanation/corpus.md").read_text(encoding="utf-8")
    table = rows(section(page, "What is in it"))
    made = inventory(Locale.parse("fr"), Locale.parse("en"))
    assert [kind.strip("`") for kind, *_ in table] == list(KINDS)

    def plain(text: str) -> str:
        return " ".join(text.split())

    for kind, source, target in table:
        alone = {plain(each.source): plain(each.target) for each in made.alone[kind.strip("`")]}
        assert alone[source] == target
    shown = re.search(r"\*(.+)\* becomes \*(.+)\*", page)
    assert shown is not None
    items = {plain(e.source): plain(e.target) for es in made.in_lists.values() for e in es}
    source, target = made.source_joiner.styles, made.target_joiner.styles
    pieces = made.source_joiner.take_apart(shown[1])[::2]
    assert source["standard"].join(pieces) == shown[1]
    assert target["standard"].join([items[piece] for piece in pieces]) == shown[2]


def verbs(command: Any, name: str) -> list[str]:
    """What can be called, groups of verbs aside."""
    if not hasattr(command, "commands"):
        return [name]
    found = command.commands.items()
    return [each for word, below in found for each in verbs(below, f"{name} {word}")]


def test_the_page_of_the_command_line_has_every_verb() -> None:
    page = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    found = [verb.strip("`") for verb, _ in rows(page)]
    assert sorted(found) == sorted(verbs(typer.main.get_command(app), "headway"))


def test_the_reference_names_what_load_gives() -> None:
    from headway.runs import open_model

    page = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    table = rows(section(page, "From Python"))
    kinds = {kind.strip("`"): re.findall(r"`(\w+)`", methods) for _, kind, methods in table}
    assert {getattr(open_model, kind) for kind in kinds} == set(get_args(open_model.Opened))
    for kind, methods in kinds.items():
        assert all(callable(getattr(getattr(open_model, kind), name)) for name in methods)


def test_the_table_of_extras_has_all() -> None:
    page = (DOCS / "tutorial/first-run.md").read_text(encoding="utf-8")
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    named = [extra.strip("`") for extra, _ in rows(section(page, "Install"))]
    extras = project["project"]["optional-dependencies"].keys()
    assert sorted(named) == sorted(extras - {"dev", "docs"})
