"""The shipped recipes, with their files in place: each is whole, and those on real text train."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.data.pairs import load_part
from headway.data.sources import Files, Table, source_of
from headway.settings.recipe import load_recipe, shipped_recipes

Cli = Callable[..., Any]
WORDS = {"cat": "chat", "dog": "chien", "bird": "oiseau", "sees": "voit", "likes": "aime"}
SPLITS = {"train": 60, "val": 8, "test_2016_flickr": 8}
# what a recipe leaves to its user
FILES: dict[str, dict[str, Any]] = {
    "pairs": {"data.train.source": "mine.en", "data.train.target": "mine.fr"},
    "tatoeba": {"data.train.file": "fra.txt"},
}
# small enough to train here, whatever the recipe's model is
SMALL = {
    "train.steps": 2,
    "train.batch_tokens": 64,
    "train.warmup": 1,
    "train.evaluate_every": 2,
    "train.save_every": 1,
    "train.average": 2,
    "train.dtype": "float32",
    "tokenizer.size": 300,
    "evaluate.lines": 4,
    "evaluate.beam": 1,
}
NARROW = {
    "recurrent": {"model.d_embedding": 8, "model.d_hidden": 8},
    "transformer": {"model.d_model": 12, "model.d_feed_forward": 16},
}
ON_MULTI30K = [name for name in shipped_recipes() if name.startswith("multi30k/")]


def pairs(n: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    rows = [draw.choices(list(WORDS), k=draw.randint(2, 6)) for _ in range(n)]
    return [(" ".join(row), " ".join(WORDS[word] for word in row)) for row in rows]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that a shipped recipe may want, where commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    (tmp_path / "data/multi30k").mkdir(parents=True)
    for seed, (split, n) in enumerate(SPLITS.items()):
        for language, texts in zip(("en", "fr"), zip(*pairs(n, seed), strict=True), strict=True):
            path = tmp_path / f"data/multi30k/{split}.{language}.gz"
            path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    made = sorted(pairs(400, 9), key=lambda pair: len(pair[0]))
    rows = "".join(f"{source}\t{target}\tCC-BY 2.0\n" for source, target in made)
    (tmp_path / "fra.txt").write_text(rows, encoding="utf-8")
    for language, texts in zip(("en", "fr"), zip(*made, strict=True), strict=True):
        (tmp_path / f"mine.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return tmp_path


FINE_TUNING = ("glue/", "sft/")  # these have tests of their own


@pytest.mark.parametrize(
    "name", [name for name in shipped_recipes() if not name.startswith(FINE_TUNING)]
)
def test_the_files_that_a_recipe_names_are_all_it_reads(name: str, place: Path) -> None:
    recipe = load_recipe(name, FILES.get(name, {}))
    for part in ("train", "valid", "test"):
        if isinstance(source_of(recipe.data, part), Files | Table):
            found = load_part(recipe.data, part)
            assert found is not None
            assert len(found) > 0
    if name not in ("pairs",):  # valid and test are there, or are made
        assert recipe.data.held_out or (recipe.data.valid and recipe.data.test)


def options(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def trained(cli: Cli, name: str, settings: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """Train by the command line; returns the records of the run."""
    model = load_recipe(name, FILES.get(name, {})).model
    changes = SMALL | NARROW[model.kind] | FILES.get(name, {}) | settings
    said = cli("train", name, *options(changes), "--out", out)
    assert said.code == 0, said.err
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the small vocabulary
@pytest.mark.parametrize("name", ON_MULTI30K)
@pytest.mark.parametrize(
    ("languages", "kind"), [("en-fr", "bpe"), ("fr-en", "word"), ("fr-en", "character")]
)
def test_multi30k_trains_in_both_directions_with_each_tokeniser(
    name: str, languages: str, kind: str, place: Path, cli: Cli
) -> None:
    source, target = languages.split("-")
    turned = {"data.source_language": source, "data.target_language": target}
    records = trained(cli, name, turned | {"tokenizer.kind": kind}, place / "run")
    (end,) = (each for each in records if each["kind"] == "test")
    assert end["n"] == SPLITS["test_2016_flickr"]
    report = json.loads((place / "run/data.json").read_text(encoding="utf-8"))
    assert report["origin"] == ", ".join(
        f"${{HEADWAY_DATA}}/multi30k/train.{language}.gz" for language in (source, target)
    )
    assert (report["source"]["language"], report["read"]) == (source, SPLITS["train"])
    found = json.loads((place / "run/tokenizer.json").read_text(encoding="utf-8"))
    has_merges = bool(found["model"].get("merges"))
    assert (found["model"]["type"], has_merges) == {
        "bpe": ("BPE", True),
        "word": ("WordLevel", False),
        "character": ("BPE", False),
    }[kind]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("turned", [False, True])
def test_tatoeba_trains_on_one_file(turned: bool, place: Path, cli: Cli) -> None:
    """As its comment says, also the other way round."""
    way = {
        "data.train.source": 1,
        "data.train.target": 0,
        "data.source_language": "fr",
        "data.target_language": "en",
    }
    few = {"data.held_out": 0.05}  # 1 % of what there is here are none or one
    records = trained(cli, "tatoeba", few | (way if turned else {}), place / "run")
    assert {"valid", "test"} <= {each["kind"] for each in records}
    recipe = load_recipe(place / "run/recipe.toml")
    train, test = load_part(recipe.data, "train"), load_part(recipe.data, "test")
    assert train is not None
    assert test is not None
    assert not set(train.sources) & set(test.sources)
    assert set(" ".join(train.sources).split()) == set(WORDS.values() if turned else WORDS)


def test_a_file_that_is_left_to_the_user_is_asked_for(place: Path, cli: Cli) -> None:
    for name, files in FILES.items():
        said = cli("train", name)
        assert f"give it as --set {next(iter(files))}=" in said.error
