"""The recipes of GLUE: files as they circulate are read, tuned on, and judged as is official."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headway
from headway.data.labelled import classes_of, read_labelled
from headway.runs.glue import as_in_files, evaluate_task
from headway.settings.base import parse
from headway.settings.glue import GLUE, glue_recipe
from headway.settings.rows import LabelSettings
from headway.settings.toml import dump_toml

Cli = Callable[..., Any]
DATA = os.environ.get("HEADWAY_DATA")
# the heads of the files, and a row below each: what is not read is "."
LAYOUTS: dict[str, tuple[str, str]] = {
    "cola": ("", ". {label} . {one}"),
    "sst2": ("sentence label", "{one} {label}"),
    "mrpc": ("Quality #1_ID #2_ID #1_String #2_String", "{label} . . {one} {two}"),
    "stsb": (
        "index genre filename year old_index source1 source2 sentence1 sentence2 score",
        ". . . . . . . {one} {two} {label}.5",
    ),
    "qqp": ("id qid1 qid2 question1 question2 is_duplicate", ". . . {one} {two} {label}"),
    "mnli": (
        "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
        "sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label",
        ". . . . . . . . {one} {two} . {label}",
    ),
    "qnli": ("index question sentence label", ". {one} {two} {label}"),
    "rte": ("index sentence1 sentence2 label", ". {one} {two} {label}"),
    "wnli": ("index sentence1 sentence2 label", ". {one} {two} {label}"),
}
LABELS = {
    "mnli": ["contradiction", "entailment", "neutral"],
    "qnli": ["entailment", "not_entailment"],
    "rte": ["entailment", "not_entailment"],
}
SIZES = {"cola": (8551, 1043), "mrpc": (3667, 408), "rte": (2490, 277), "sst2": (67_349, 872)}


def write(folder: Path, task: str, n: int) -> None:
    draw, (head, row) = random.Random(n), LAYOUTS[task]
    of = GLUE[f"glue/{task}"]
    labels = LABELS.get(task, ["0", "1"])
    for part in {"train", of.valid, of.test} - {None}:
        lines = [head] if head else []
        for place in range(n):
            one, two = (f'{draw.choice("abcdef")}-"{draw.randint(0, 9)}' for _ in range(2))
            lines.append(row.format(one=one, two=two, label=labels[place % len(labels)]))
        text = "".join(line.replace(" ", "\t").replace("_", " ") + "\n" for line in lines)
        for name in ("gold label", "not entailment", "is duplicate", "old index"):
            text = text.replace(name, name.replace(" ", "_"))
        path = folder / "glue" / of.folder / f"{part}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8-sig")


@pytest.mark.parametrize("task", LAYOUTS)
def test_each_layout_is_read(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    write(tmp_path, task, 12)
    settings = parse(LabelSettings, glue_recipe(f"glue/{task}")["data"], where=task)
    train, valid = read_labelled(settings, "train"), read_labelled(settings, "valid")
    assert train is not None
    assert valid is not None
    assert (len(train), len(valid)) == (12, 12)
    assert len(train.rows[0]) == (2 if task in ("cola", "sst2") else 3)
    assert all('-"' in text for row in train.rows for text in row[:-1])
    if task == "stsb":
        assert settings.regression
        assert set(train.column(-1)) == {"0.5", "1.5"}
    else:
        assert classes_of(train) == LABELS.get(task, ["0", "1"])
    assert (read_labelled(settings, "test") is not None) is (task == "mnli")


def test_all_tasks_have_a_layout_here() -> None:
    assert {f"glue/{task}" for task in LAYOUTS} == GLUE.keys()


@pytest.mark.skipif(DATA is None, reason="HEADWAY_DATA names no folder of real data")
@pytest.mark.parametrize("task", SIZES)
def test_the_real_files_are_read_whole(task: str) -> None:
    settings = parse(LabelSettings, glue_recipe(f"glue/{task}")["data"], where=task)
    found = [read_labelled(settings, part) for part in ("train", "valid")]  # type: ignore[arg-type]
    for wanted, part in zip(SIZES[task], found, strict=True):
        assert part is not None
        assert len(part) == wanted
        assert not any(each.dropped for each in part.findings)


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny classifier of the toy MRPC, to begin from."""
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    write(tmp_path, "mrpc", 64)
    table = glue_recipe("glue/mrpc")
    table["model"] = {"kind": "encoder", "max_length": 16}
    table["model"] |= {"n_layers": 1, "d_model": 16, "d_feed_forward": 16, "n_heads": 2}
    table["tokenizer"] = {"kind": "character"}
    headway.train(table, out=tmp_path / "first", train={"steps": 1, "dtype": "float32"})
    return tmp_path / "first"


def test_a_recipe_may_say_itself_what_it_begins_from(
    origin: Path, tmp_path: Path, cli: Cli
) -> None:
    table = glue_recipe("glue/mrpc")
    table["train"] |= {"steps": 2, "dtype": "float32"}
    for where, told in ((str(origin), ""), ("", "--from PATH"), (None, "--from PATH")):
        table["model"] = {"kind": "encoder", "pooler": True}
        table["model"] |= {} if where is None else {"from": where}
        (tmp_path / "mine.toml").write_text(dump_toml(table), encoding="utf-8")
        said = cli("finetune", tmp_path / "mine.toml", "--out", tmp_path / f"run-{bool(told)}")
        assert told in said.error if told else said.code == 0
    assert not (tmp_path / "run-True").exists()


def test_a_task_from_its_recipe_to_its_scores(origin: Path, tmp_path: Path, cli: Cli) -> None:
    assert "--from PATH" in cli("train", "glue/mrpc").error
    out, file = tmp_path / "run", tmp_path / "scores.json"
    words = ["--set", "train.epochs=1.0", "--set", "train.dtype=float32", "--out", out]
    said = cli("finetune", "glue/mrpc", "--from", origin, *words)
    assert said.code == 0, said.err
    assert f"headway classify {out}" in said.out.decode()
    found = cli("evaluate", out, "--task", "glue/mrpc", "--json", file)
    assert found.code == 0, found.err
    (part,) = json.loads(file.read_text(encoding="utf-8"))["parts"]
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    logged = next(each for each in map(json.loads, lines) if each["kind"] == "test")
    assert (part["f1"], part["accuracy"]) == (logged["f1"], logged["accuracy"])
    assert (part["rows"], len(part["told"])) == (64, 64)
    assert "f1" in found.out.decode()
    moved = tmp_path / "elsewhere"
    (tmp_path / "glue").rename(moved)
    assert cli("evaluate", out, "--task", "glue/mrpc", "--glue", moved).out == found.out.replace(
        b"${HEADWAY_DATA}/glue", str(moved).encode()
    )
    assert "no such file" in cli("evaluate", out, "--task", "glue/mrpc").error
    assert "did you mean 'glue/mrpc'" in cli("evaluate", out, "--task", "glue/mrp").error
    assert "asks for numbers" in cli("evaluate", out, "--task", "glue/stsb").error
    file = moved / "MRPC" / "dev.tsv"
    file.write_text(re.sub("^1", "same", file.read_text("utf-8"), flags=re.M), encoding="utf-8")
    error = cli("evaluate", out, "--task", "glue/mrpc", "--glue", moved).error
    assert "the classifier tells 0, 1, and the labels here are same, …; name the task" in error


def test_the_hub_takes_the_place_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.settings.recipe import load_recipe

    columns = {"text": "sentence1", "second": "sentence2", "label": "label"}
    part = {"hub": "nyu-mll/glue", "config": "mrpc", **columns}
    begin = {"model.from": "a", "model.preset": "bert-tiny"}
    recipe: Any = load_recipe("glue/mrpc", {**begin, "data.train": part, "data.valid": part})
    assert recipe.data.train.to_table() == {"bad": "few", "streaming": False, **part}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The toy MRPC as a data set of the hub has it; the part of a recipe that reads it."""
    names = ["not_equivalent", "equivalent"]

    def load_dataset(name: str, config: str, *, split: str, streaming: bool) -> Any:
        assert (name, config, streaming) == ("some/glue", "mrpc", False)
        file = tmp_path / "glue" / "MRPC" / f"{'dev' if split == 'validation' else split}.tsv"
        lines = file.read_text(encoding="utf-8-sig").splitlines()[1:]
        fields = [line.split("\t") for line in lines]
        found = DataSet(
            {"sentence1": a, "sentence2": b, "label": int(y)} for y, _, _, a, b in fields
        )
        found.features = {"label": SimpleNamespace(names=names)}
        return found

    class DataSet(list[Any]):
        column_names = ("sentence1", "sentence2", "label")
        features: dict[str, Any]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    columns = {"text": "sentence1", "second": "sentence2", "label": "label"}
    return {"hub": "some/glue", "config": "mrpc", **columns}


def test_files_and_hub_are_learnt_and_judged_alike(
    origin: Path, hub: dict[str, Any], tmp_path: Path, cli: Cli
) -> None:
    begin = {"model.from": str(origin), "train.steps": 6, "train.dtype": "float32"}
    begin |= {"train.learning_rate": 3e-2, "evaluate.metric": "accuracy"}
    of_files = headway.train("glue/mrpc", out=tmp_path / "files", **begin)
    names = {"data.train": hub, "data.valid": hub, **begin}
    of_hub = headway.train("glue/mrpc", out=tmp_path / "hub", **names)
    assert of_hub.labels == ["not_equivalent", "equivalent"]
    turned = headway.train(
        "glue/mrpc", out=tmp_path / "turned", **names, **{"data.labels": of_hub.labels[::-1]}
    )
    for run in (of_files, of_hub, turned):
        (by_files,) = evaluate_task(run, "glue/mrpc")
        (by_hub,) = evaluate_task(run, "glue/mrpc", "hub:some/glue")
        assert by_hub.file == "some/glue mrpc validation"
        assert (by_files.scores, by_files.told) == (by_hub.scores, by_hub.told)
        told = [label == "1" for label in by_files.told]
        right = [place % 2 == 1 for place in range(64)]
        hits = sum(a and b for a, b in zip(told, right, strict=True))
        assert by_files.scores["f1"] == pytest.approx(200 * hits / (sum(told) + sum(right)))
    assert (
        evaluate_task(of_files, "glue/mrpc")[0].scores
        == evaluate_task(of_hub, "glue/mrpc")[0].scores
    )
    said = cli("evaluate", tmp_path / "hub", "--task", "glue/mrpc", "--glue", tmp_path / "glue")
    assert said.code == 0, said.err


def test_labels_by_the_names_of_the_hub_are_those_of_the_files() -> None:
    task = GLUE["glue/mrpc"]
    assert as_in_files(["equivalent", "not_equivalent"], task) == ["1", "0"]
    assert as_in_files(["1", "0"], task) == ["1", "0"]
    assert as_in_files(None, GLUE["glue/stsb"]) is None
    assert as_in_files(["entailment", "not_entailment"], GLUE["glue/rte"])[0] == "entailment"
