from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as LibraryTokenizer

import headway
from headway.base.errors import UserError
from headway.checkpoint.run import FORMAT, RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.checkpoint.weights import read_tensors
from headway.data.pairs import read_pairs
from headway.settings.recipe import load_recipe

TranslationRecipe = Callable[..., dict[str, Any]]
Run = Callable[[str], Path]


def test_a_run_holds_what_the_design_says(
    trained: Run, toy: Path, toy_recipe: TranslationRecipe
) -> None:
    run = trained("transformer")
    assert sorted(entry.name for entry in run.iterdir()) == [
        "checkpoints",
        "config.json",
        "data.json",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "recipe.toml",
        "report.html",
        "tensorboard",
        "tokenizer.json",
    ]
    wanted = load_recipe(toy_recipe("transformer"), {"train.compile": False})  # "auto", on a CPU
    assert load_recipe(run / "recipe.toml") == wanted
    assert "label_smoothing = 0.1\n" in (run / "recipe.toml").read_text(encoding="utf-8")
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == FORMAT
    assert config["model"]["n_decoder_layers"] == 2
    tokenizer = (run / "tokenizer.json").read_bytes()
    assert config["tokenizers"] == {"tokenizer.json": hashlib.sha256(tokenizer).hexdigest()}
    library = LibraryTokenizer.from_file(str(run / "tokenizer.json"))
    assert library.encode("un chat").ids[-1] == library.token_to_id("</s>")
    assert config["n_source"] == config["n_target"] == library.get_vocab_size()
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    pairs = {part: read_pairs(f"{toy}/{part}.fr", f"{toy}/{part}.en") for part in ("train", "test")}
    assert {part: environment["data"][part] for part in pairs} == {
        part: found.digest() for part, found in pairs.items()
    }
    assert environment["packages"]["torch"].startswith(torch.__version__.partition("+")[0])
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 3
    assert "big" in page


def test_checkpoints_hold_the_last_steps_and_nothing_of_a_wrapper(trained: Run) -> None:
    run = trained("attention")
    names = sorted(entry.name for entry in (run / "checkpoints").iterdir())
    assert names == ["step-100", "step-150"]
    found, passed_over = newest_checkpoint(run / "checkpoints")
    assert found is not None
    assert (found.step, passed_over) == (150, [])
    assert found.state()["step"] == 150
    weights, best = found.weights(), RunFolder(run).weights()
    assert weights.keys() == best.keys()
    assert {name.rpartition("/")[0] for name in found.optimizer()} == weights.keys()


def test_records_say_how_it_went(trained: Run) -> None:
    records = RunFolder(trained("transformer")).metrics.read()
    steps = {kind: [r["step"] for r in records if r["kind"] == kind] for kind in ("train", "valid")}
    assert steps == {"train": [20, 40, 60, 80, 100, 120, 140, 150], "valid": [75, 150]}
    train = [record for record in records if record["kind"] == "train"]
    assert set(train[0]) == {
        *("kind", "step", "tokens", "seconds", "objective", "nll"),
        *("learning_rate", "grad_norm", "tokens_per_s", "utilisation", "skipped"),
    }
    assert [record.get("partial", False) for record in train] == [False] * 7 + [True]
    assert train[0]["nll"] > 1.5 * train[-1]["nll"]
    assert train[-1]["objective"] > train[-1]["nll"]  # smoothing costs
    valid = [record for record in records if record["kind"] == "valid"][-1]
    assert {"nll", "perplexity", "token_accuracy", "bleu", "chrf", "exact_match"} < set(valid)
    assert len(valid["samples"]) == 3
    (test,) = (record for record in records if record["kind"] == "test")
    assert test["n"] == 40
    assert records[-1] is test


def test_tensorboard_has_the_same_numbers(trained: Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trained("transformer")
    board = EventAccumulator(str(run / "tensorboard")).Reload()
    for kind, name in (("train", "nll"), ("train", "learning_rate"), ("valid", "chrf")):
        records = [r for r in RunFolder(run).metrics.read() if r["kind"] == kind]
        shown = {event.step: event.value for event in board.Scalars(f"{kind}/{name}")}
        assert shown == pytest.approx({r["step"]: r[name] for r in records}, rel=1e-5)


def test_the_best_weights_are_kept_and_returned(trained: Run, toy: Path) -> None:
    run = trained("attention")
    records = RunFolder(run).metrics.read()
    best = min((r for r in records if r["kind"] == "valid"), key=lambda record: record["nll"])
    valid = read_pairs(str(toy / "valid.fr"), str(toy / "valid.en"))
    found = headway.load(run).likelihoods(valid.sources, valid.targets)
    nll = sum(each.nll for each in found) / sum(each.tokens for each in found)
    assert nll == pytest.approx(best["nll"], rel=1e-5)


def test_later_weights_that_are_no_better_are_not_kept(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    recipe = toy_recipe("plain", steps=2, evaluate_every=1, save_every=1)
    recipe["evaluate"]["metric"] = "exact_match"  # 0 at both
    headway.train(recipe, out=tmp_path / "run")
    steps = [
        read_tensors(tmp_path / f"run/checkpoints/step-{step}/model.safetensors") for step in (1, 2)
    ]
    kept = RunFolder(tmp_path / "run").weights()
    assert [torch.equal(kept["head.weight"], step["head.weight"]) for step in steps] == [
        True,
        False,
    ]


def test_separate_tokenisers_are_two_files(trained: Run) -> None:
    run = trained("attention")
    assert not (run / "tokenizer.json").exists()
    known = {
        side: LibraryTokenizer.from_file(str(run / f"tokenizer.{side}.json")).encode(text).tokens
        for side, text in (("source", "chat cat"), ("target", "chat cat"))
    }
    assert known == {"source": [" chat", "<unk>", "</s>"], "target": ["<unk>", " cat", "</s>"]}


def test_overrides_come_dotted_or_as_tables(toy_recipe: TranslationRecipe, tmp_path: Path) -> None:
    recipe = toy_recipe("plain", save_every=1, keep=9, batch_tokens=64)
    two = headway.train(recipe, out=tmp_path / "dotted", **{"train.steps": 2})
    headway.train(recipe, out=tmp_path / "table", train={"steps": 2})
    assert two.recipe.train.steps == 2
    for name in ("dotted", "table"):
        checkpoints = tmp_path / name / "checkpoints"
        assert sorted(entry.name for entry in checkpoints.iterdir()) == ["step-1", "step-2"]
    assert recipe["train"]["steps"] == 150


def test_the_same_recipe_gives_the_same_run(toy_recipe: TranslationRecipe, tmp_path: Path) -> None:
    one, two, other = (
        headway.train(toy_recipe("plain", steps=4), out=tmp_path / name, seed=seed)
        for name, seed in (("one", 1), ("two", 1), ("other", 2))
    )
    weights, again = one.model.state_dict(), two.model.state_dict()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert not torch.equal(weights["head.weight"], other.model.state_dict()["head.weight"])


def test_without_a_validation_part_the_last_weights_are_the_run(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    recipe = toy_recipe("plain", steps=3, evaluate_every=1)
    del recipe["data"]["valid"], recipe["data"]["test"]
    translator = headway.train(recipe, out=tmp_path / "run")
    assert {r["kind"] for r in RunFolder(tmp_path / "run").metrics.read()} == {"train"}
    newest, _ = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert newest is not None
    weights = RunFolder(tmp_path / "run").weights()
    assert all(torch.equal(value, weights[name]) for name, value in newest.weights().items())
    assert len(translator.translate(["un chat"])) == 1
    assert (tmp_path / "run" / "report.html").stat().st_size > 1000


def test_without_a_test_part_the_validation_part_is_reported(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    recipe = toy_recipe("plain", steps=2)
    del recipe["data"]["test"]
    headway.train(recipe, out=tmp_path / "run")
    assert RunFolder(tmp_path / "run").metrics.read()[-1]["n"] == 20


def test_evaluating_changes_nothing_of_the_training(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    often, never = (
        headway.train(
            toy_recipe("transformer", steps=6, evaluate_every=every, log_every=1),
            out=tmp_path / name,
        )
        for name, every in (("often", 2), ("never", 1000))
    )
    losses = [
        [r["nll"] for r in RunFolder(tmp_path / out).metrics.read() if r["kind"] == "train"]
        for out in ("often", "never")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 6
    assert often.recipe != never.recipe


def test_a_table_needs_a_folder(toy_recipe: TranslationRecipe) -> None:
    with pytest.raises(UserError, match="out=FOLDER"):
        headway.train(toy_recipe("plain"))


def test_a_recipe_by_path_goes_to_a_folder_of_its_name(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = load_recipe(toy_recipe("plain", steps=1)).to_toml()
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    headway.train("mine.toml")
    assert RunFolder("runs/mine").recipe()["train"]["steps"] == 1


def test_the_dtype_that_a_probe_found_is_written_down(
    toy_recipe: TranslationRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    headway.train(toy_recipe("plain", steps=1, dtype="auto"), out=tmp_path / "run")
    found = RunFolder(tmp_path / "run").recipe()["train"]["dtype"]
    assert found in ("float32", "bfloat16")
    (answer,) = json.loads((tmp_path / "cache/headway/dtype.json").read_text("utf-8")).values()
    assert answer == found
