"""Fine-tuning on labels: from a model that exists to a run that tells labels."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.checkpoint.weights import read_tensors
from headway.models.build import build_decoder, build_masked
from headway.runs.beginning import Beginning, read_beginning
from headway.runs.classifier import TextClassifier
from headway.runs.open_model import open_classifier
from headway.runs.text_tokenizers import tokenizer_files
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.recipe import load_recipe
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.text_training import train_text_tokenizer

Cli = Callable[..., Any]
WORDS = ["sun", "rain", "hill", "lake", "road", "tree", "bird", "fish"]
SETTINGS = EncoderSettings(
    d_model=24, d_feed_forward=32, n_heads=2, n_layers=2, max_length=32, norm_eps=1e-12
)


def rows(n: int, seed: int) -> list[tuple[str, str, str]]:
    """Two texts, and whether the sun is in one of them."""
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        first, other = (draw.choices(WORDS[1:], k=draw.randint(2, 5)) for _ in range(2))
        shines = draw.random() < 0.5
        if shines:
            draw.choice((first, other))[1] = "sun"
        found.append((" ".join(first), " ".join(other), str(+shines)))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of labelled rows, and an encoder with a head for masked words, as others write it."""
    folder = tmp_path_factory.mktemp("labels")
    for seed, (part, n) in enumerate({"train": 160, "dev": 40}.items()):
        lines = ["first\tsecond\tlabel", *("\t".join(row) for row in rows(n, seed))]
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    texts = [text for row in rows(160, 0) for text in row[:2]]
    tokenizer = train_text_tokenizer(TokenizerSettings(kind="word", size=40), texts, masks=True)
    model = build_masked(SETTINGS, n_tokens=len(tokenizer), seed=3)
    write_model(folder / "bert", model, SETTINGS)
    for name, text in tokenizer_files(tokenizer).items():
        (folder / "bert" / name).write_text(text, encoding="utf-8")
    return folder


def recipe(place: Path, **keys: Any) -> dict[str, Any]:
    columns = {"text": "first", "second": "second", "label": "label"}
    return {
        "data": {
            "kind": "labels",
            "train": {"file": str(place / "train.tsv"), **columns},
            "valid": {"file": str(place / "dev.tsv"), **columns},
        },
        "model": {"from": str(place / "bert"), "dropout": 0.2, **keys.pop("model", {})},
        "train": {
            "epochs": 2.0,
            "batch_rows": 16,
            "learning_rate": 3e-3,
            "dtype": "float32",
            **keys,
        },
    }


@pytest.fixture(scope="module")
def run(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "labels"
    headway.train(recipe(place), out=folder)
    return folder


def records(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_run_that_was_stopped_before_its_first_save_begins_anew_from_the_same(
    place: Path, run: Path, tmp_path: Path
) -> None:
    again = tmp_path / "run"
    shutil.copytree(run, again)
    shutil.rmtree(again / "checkpoints")
    (again / "model.safetensors").unlink()
    (again / "metrics.jsonl").unlink()
    headway.train(None, out=again, resume=True)
    one, other = (read_tensors(path / "model.safetensors") for path in (run, again))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_recipe_of_the_run_says_all(place: Path, run: Path) -> None:
    found = load_recipe(run / "recipe.toml")
    assert found.model == SETTINGS.model_copy(
        update={"origin": str(place / "bert"), "dropout": 0.2, "activation_dropout": 0.0}
    )
    assert (found.train.steps, found.train.warmup, found.train.evaluate_every) == (20, 2, 10)
    kinds = [(each["kind"], each["step"]) for each in records(run)]
    assert [each for each in kinds if each[0] != "train"] == [
        ("valid", 10),
        ("valid", 20),
        ("test", 20),
    ]
    assert json.loads((run / "labels.json").read_text(encoding="utf-8")) == ["0", "1"]
    test = records(run)[-1]
    assert test["part"] == "valid"
    assert test["score"] == test["accuracy"]
    assert set(test["passages"][0]) == {"text", "second", "label", "told"}
    assert "<h2>" in (run / "report.html").read_text(encoding="utf-8")


def test_a_pass_has_enough_batches_for_a_step(place: Path, tmp_path: Path) -> None:
    """A step over many passes would be the only one, at a rate of 0."""
    for accumulate in (11, 99):
        with pytest.raises(UserError, match=r"train\.accumulate: .* a pass has 10 batches"):
            headway.train(recipe(place, accumulate=accumulate), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_rate_of_nothing_is_told(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n, said in ((1, True), (2, False)):
        headway.train(recipe(place, steps=n), out=tmp_path / str(n))
        assert ("the learning rate is 0 in every step" in capsys.readouterr().err) is said


def test_weights_are_taken_and_fresh_and_left(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headway.train(recipe(place, steps=1, learning_rate=1e-12), out=tmp_path / "run")
    said = capsys.readouterr().err
    assert "fresh: head.weight, head.bias" in said
    assert "not taken: masked." in said
    weights, (theirs, _) = (
        read_tensors(tmp_path / "run/model.safetensors"),
        read_model(place / "bert"),
    )
    for name, weight in theirs.state_dict().items():
        if name.startswith("encoder."):
            torch.testing.assert_close(weights[name], weight, atol=1e-9, rtol=0)


def test_it_tells_labels(run: Path, tmp_path: Path, cli: Cli) -> None:
    opened = headway.load(run, device="cpu")
    assert isinstance(opened, TextClassifier)
    test = rows(60, 9)
    texts, seconds = [row[0] for row in test], [row[1] for row in test]
    found = opened.classify(texts, seconds)
    assert all(0.5 <= each.probability <= 1 for each in found)
    alone = [opened.classify([a], [b])[0] for a, b in zip(texts, seconds, strict=True)]
    assert [each.name for each in alone] == [each.name for each in found]
    chances = opened.probabilities(texts, seconds)
    assert chances.sum(dim=-1).tolist() == pytest.approx([1.0] * 60)
    lines = "".join(f"{a}\t{b}\n" for a, b in zip(texts, seconds, strict=True))
    said = cli("classify", run, "--second", "--json", tmp_path / "o.json", stdin=lines.encode())
    assert said.code == 0, said.err
    assert [line.split("\t")[0] for line in said.out.decode().splitlines()] == [
        each.name for each in found
    ]
    written = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert written[0]["probability"] == pytest.approx(found[0].probability, abs=1e-5)
    assert "no tab" in cli("classify", run, "--second", stdin=b"a\tb\nc\n").error
    assert "pairs of texts" in cli("classify", run, stdin=b"a\n").error


def test_it_learns(place: Path, tmp_path: Path) -> None:
    headway.train(recipe(place, epochs=14.0, model={"dropout": 0.0}), out=tmp_path / "run")
    assert records(tmp_path / "run")[-1]["accuracy"] > 85.0


def test_a_run_that_was_stopped_goes_on_without_what_it_began_from(
    place: Path, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    mine = tmp_path / "place"
    shutil.copytree(place, mine)
    table = recipe(mine, save_every=3, lora={"rank": 2})
    headway.train(table, out=whole)
    headway.train(table, out=parts)
    shutil.rmtree(mine / "bert")
    shutil.rmtree(parts / "checkpoints/step-20")
    headway.train(None, out=parts, resume=True)
    one, other = (read_tensors(each / "model.safetensors") for each in (whole, parts))
    assert one.keys() == other.keys()
    assert not any("update" in name for name in one)
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(UserError, match=r"'train.epochs' of a run that has begun cannot change"):
        headway.train(None, out=parts, resume=True, **{"train.epochs": 5.0})


def test_a_run_begins_from_a_run(place: Path, run: Path, tmp_path: Path) -> None:
    table = recipe(place, steps=1)
    table["model"]["from"] = str(run)
    beginning = read_beginning(table)
    assert beginning is not None
    assert {"head.weight", "encoder.pooler.weight"} <= beginning.weights.keys()
    headway.train(table, out=tmp_path / "next")
    assert load_recipe(tmp_path / "next/recipe.toml").model.max_length == 32


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"n_layers": 3}, r"missing: encoder.stack.layers.2.*and \d+ more"),
        ({"d_feed_forward": 48}, r"of another shape: encoder.stack.layers.0.feed_forward.up"),
        ({"kind": "decoder"}, "of the kind 'encoder', and the recipe trains 'decoder'"),
        ({"from": ""}, "names no model to begin from"),
        ({"from": "${NOWHERE}/bert"}, "'NOWHERE'"),
        ({"frm": "x"}, "unknown key 'model.frm'; did you mean 'from'"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    place: Path, tmp_path: Path, model: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        headway.train(recipe(place, model=model), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tokeniser_beside_the_model_s_own_is_refused(place: Path, tmp_path: Path) -> None:
    table = {**recipe(place), "tokenizer": {"file": "own.json"}}
    with pytest.raises(UserError, match=r"tokenizer.file: the tokeniser comes with the model"):
        headway.train(table, out=tmp_path / "run")


def test_an_output_is_the_embedding_or_a_matrix_of_its_own() -> None:
    settings = {"d_model": 8, "d_feed_forward": 8, "n_heads": 2, "n_layers": 1}
    models = {
        tie: build_decoder(DecoderSettings(**settings, tie=tie), n_tokens=9, seed=1)
        for tie in ("output", "none")
    }
    origins = {
        tie: Beginning(DecoderSettings(**settings, tie=tie), model.state_dict(), "there")
        for tie, model in models.items()
    }
    del origins["output"].weights["head.weight"]
    found, said = origins["output"].weights_for(models["none"])
    assert torch.equal(found["head.weight"], found["embedding.tokens.weight"])
    assert "fresh" not in said
    with pytest.raises(UserError, match=r"two matrices, and model.tie makes them one"):
        origins["none"].weights_for(models["output"])


def test_a_regression_gives_numbers(place: Path, tmp_path: Path, cli: Cli) -> None:
    table = recipe(place, epochs=8.0, model={"dropout": 0.0})
    table["data"]["regression"] = True
    table["evaluate"] = {"metric": "pearson"}
    opened = headway.train(table, out=tmp_path / "run")
    assert isinstance(opened, TextClassifier)
    test = rows(60, 9)
    found = opened.estimate([row[0] for row in test], [row[1] for row in test])
    same = [value for value, row in zip(found, test, strict=True) if row[2] == "1"]
    other = [value for value, row in zip(found, test, strict=True) if row[2] == "0"]
    assert sum(same) / len(same) > sum(other) / len(other) + 0.3
    with pytest.raises(UserError, match="gives numbers, not labels"):
        opened.classify(["a"], ["b"])
    said = cli("classify", tmp_path / "run", "--second", stdin=b"sun\tsun\n")
    assert float(said.out) == pytest.approx(opened.estimate(["sun"], ["sun"])[0], abs=1e-3)


def test_transformers_folder_with_a_classifier_opens_as_one(run: Path, tmp_path: Path) -> None:
    opened = open_classifier(run, device="cpu")
    names = {"id2label": {0: "different", 1: "same"}}
    write_model(tmp_path / "hf", opened.model, opened.settings, extra=names)
    for name, text in tokenizer_files(opened.tokenizer).items():
        (tmp_path / "hf" / name).write_text(text, encoding="utf-8")
    other = headway.load(tmp_path / "hf", device="cpu")
    assert isinstance(other, TextClassifier)
    assert other.labels == ["different", "same"]
    texts = (["sun rain", "hill"], ["sun lake", "fish"])
    torch.testing.assert_close(other.probabilities(*texts), opened.probabilities(*texts))
