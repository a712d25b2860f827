"""A masked language model from a recipe to a run: it learns, goes on exactly, fills, embeds."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.batches.masked import MaskedBatches
from headway.checkpoint.run import RunFolder
from headway.runs.corpus import CORPUS
from headway.runs.filler import Filler
from headway.runs.open_model import open_embedder, open_filler, open_language_model
from headway.runs.tasks.masked import MaskedTask
from headway.settings.kinds import MaskedRecipe
from headway.settings.recipe import load_recipe

ANIMALS = {"cat": "milk", "dog": "meat", "cow": "grass", "bee": "nectar", "fox": "mice"}


def document(draw: random.Random) -> str:
    """An animal, and what it eats: told again and again, so that texts of one go together."""
    animal = draw.choice(list(ANIMALS))
    lines = [
        f"the {draw.choice(['big', 'old', 'small'])} {animal} eats {ANIMALS[animal]} ."
        for _ in range(draw.randint(4, 9))
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, draw = tmp_path_factory.mktemp("animals"), random.Random(1)
    for part, n in (("train", 300), ("valid", 40)):
        text = "\n\n".join(document(draw) for _ in range(n)) + "\n"
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")
    short = "".join(f"a {animal} is an animal\n" for animal in ANIMALS)
    (folder / "short.txt").write_text(short * 4, encoding="utf-8")
    return {
        "data": {
            "kind": "documents",
            "length": 32,
            "duplicates": "keep",
            "train": {
                "told": {"files": str(folder / "train.txt"), "document": "block"},
                "short": {"files": str(folder / "short.txt"), "document": "line"},
            },
            "valid": {"told": {"files": str(folder / "valid.txt"), "document": "block"}},
        },
        "tokenizer": {"kind": "wordpiece", "size": 120},
        "model": {
            "kind": "encoder",
            "n_layers": 2,
            "d_model": 32,
            "d_feed_forward": 64,
            "n_heads": 2,
            "max_length": 40,
            "dropout": 0.05,
        },
        "masking": {"rate": 0.3},
        "train": {
            "steps": 280,
            "batch_tokens": 512,
            "optimizer": "muon",
            "learning_rate": 2e-2,
            "schedule": "linear",
            "final_rate": 0.0,
            "warmup": 20,
            "dtype": "float32",
            "log_every": 20,
            "evaluate_every": 140,
            "save_every": 40,
        },
        "evaluate": {"rows": 60, "samples": 2},
    }


@pytest.fixture(scope="module")
def run(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("masked") / "run"
    headway.train(recipe, out=path)
    return path


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in RunFolder(run).metrics.read() if each["kind"] == kind]


def test_it_learns_what_is_masked_and_what_follows(run: Path) -> None:
    first, last = records(run, "valid")[0], records(run, "test")[0]
    assert last["part"] == "valid"
    assert last["nll"] < 0.5 < 1.0 < records(run, "train")[0]["nll"]
    assert last["token_accuracy"] > 75
    assert last["follows_accuracy"] > 70
    assert last["follows_nll"] < first["follows_nll"]
    assert records(run, "train")[-1].keys() >= {"nll", "follows_nll"}


def test_the_report_shows_what_it_fills(run: Path) -> None:
    passages = records(run, "test")[0]["passages"]
    assert [each.keys() for each in passages] == [{"masked", "filled", "was"}] * 2
    assert all("<mask>" in each["masked"] for each in passages)
    assert all("<mask>" not in each["was"] for each in passages)
    report = (run / "report.html").read_text(encoding="utf-8")
    assert "&lt;mask&gt;" in report


def test_the_report_of_the_data_says_shares_of_tokens(run: Path) -> None:
    data = json.loads((run / "data.json").read_text(encoding="utf-8"))
    assert data["told"]["share"] + data["short"]["share"] == pytest.approx(1.0)
    wanted = data["short"]["tokens"] / (data["short"]["tokens"] + data["told"]["tokens"])
    assert data["short"]["share"] == pytest.approx(wanted)
    assert data["short"]["documents"] == 20


def test_passes_are_how_often_a_source_is_read(recipe: dict[str, Any]) -> None:
    made = load_recipe({**recipe, "train": {**recipe["train"], "steps": 60}})
    assert isinstance(made, MaskedRecipe)
    material = MaskedTask.prepare(made, None).material
    assert material is not None
    batches = material.batches
    assert isinstance(batches, MaskedBatches)
    seen = Counter[int]()
    for _, (epoch, _, rows) in zip(range(60), batches.after(0, 0), strict=False):
        seen.update(batches.places(epoch, rows)[0].tolist())
    for place, each in enumerate(material.reports[CORPUS].values()):
        assert each["passes"] == pytest.approx(seen[place] / batches.sources[place].n_rows, rel=0.1)


def test_what_stops_goes_on_exactly(
    recipe: dict[str, Any], goes_on_exactly: Callable[..., None]
) -> None:
    """Fresh masks, dropout on."""
    goes_on_exactly(recipe, steps=14, save_every=5, evaluate_every=6)


def test_it_fills(run: Path) -> None:
    model = headway.load(run, device="cpu")
    assert isinstance(model, Filler)
    texts = [f"the old {animal} eats [MASK] ." for animal in ANIMALS]
    found = model.fill(texts, top=3)
    right = sum(
        each.masks[0][0].token == food for each, food in zip(found, ANIMALS.values(), strict=True)
    )
    assert right >= 4
    assert found[0].text == f"the old cat eats {found[0].masks[0][0].token} ."
    assert all(len(each.masks[0]) == 3 for each in found)
    probabilities = [guess.probability for guess in found[0].masks[0]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert [model.fill([text], top=3)[0].text for text in texts] == [each.text for each in found]


def test_the_verb_fills(run: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    said = cli("fill", run, "--text", "the cow eats [MASK] .", "--top", 2, "--json", file)
    assert said.code == 0, said
    (found,) = json.loads(file.read_text(encoding="utf-8"))
    lines = said.out.decode().splitlines()
    assert lines[0] == found["text"]
    best, second = found["masks"][0]
    assert lines[1] == f"  1\t{best['probability']:.4f}\t{best['token']}"
    assert best["probability"] > second["probability"]
    piped = cli("fill", run, "--top", 1, stdin=b"the [MASK] eats <mask> .\nthe [MASK] .\n")
    assert piped.out.decode().count("\t") == 6
    assert "text 1 has no <mask>" in cli("fill", run, "--text", "nothing").error


def test_its_encoder_embeds(run: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    vectors = open_embedder(run, device="cpu").embed(["the old cat .", "a bee is an animal"])
    assert vectors.shape == (2, 32)
    said = cli("embed", run, "--json", tmp_path / "v.json", stdin=b"the old cat .\n")
    assert said.code == 0, said
    found = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    assert found["embeddings"][0] == pytest.approx(vectors[0].tolist(), abs=1e-6)


def test_runs_of_another_kind_are_refused(run: Path, trained: Callable[[str], Path]) -> None:
    with pytest.raises(UserError, match=": a translator does not fill masks"):
        open_filler(trained("plain"))
    with pytest.raises(UserError, match=": a translator does not embed text"):
        open_embedder(trained("plain"))
    with pytest.raises(UserError, match=": a masked language model does not continue text"):
        open_language_model(run)


def test_without_next_sentence_and_with_whole_words(recipe: dict[str, Any], tmp_path: Path) -> None:
    changes = {
        "masking.next_sentence": False,
        "masking.whole_words": True,
        "model.pooler": False,
        "model.n_segments": 0,
        "tokenizer.kind": "bpe",
        "tokenizer.size": 300,
        "train.steps": 8,
        "train.evaluate_every": 8,
    }
    model = headway.train(recipe, out=tmp_path / "run", **changes)
    assert isinstance(model, Filler)
    (test,) = records(tmp_path / "run", "test")
    assert "follows_nll" not in test
    assert "nll" in test
    (found,) = model.fill(["the old [MASK] eats"], top=1)
    assert found.text.startswith("the old")
    assert found.text.endswith(" eats")


def test_what_the_tokeniser_does_not_know_is_told(recipe: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "strange.txt").write_text("春夏 the big cat\n\n" * 9, encoding="utf-8")
    data = json.loads(json.dumps(recipe["data"]))
    data["valid"]["told"]["files"] = str(tmp_path / "strange.txt")
    made = MaskedTask.prepare(load_recipe({**recipe, "data": data}), None).material
    assert made is not None
    (notice,) = (each for each in made.notices if "are unknown" in each)
    assert notice.startswith(
        "valid.told: 40.0% of the tokens are unknown, such as '春', '夏': perpl"
    )
    assert "too low then" in notice


def test_too_few_tokens_are_told(recipe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="fewer than one batch"):
        headway.train(recipe, out=tmp_path / "run", **{"train.batch_tokens": 100_000})
