"""Does pretraining pay? A small BERT against the same model from scratch, on GLUE's labels.

    HEADWAY_DATA=... .venv/bin/python benchmarks/pretraining.py --out runs/pretraining \\
        --json benchmarks/results/pretraining.json --svg docs/how-to/pretraining.svg

For each seed: a BERT of 4 layers and width 256 is pretrained (masked words and next sentences) on
text that is at hand, of GLUE the training sentences without their labels. Then it is fine-tuned
with 1,000 labels of SST-2, with all of them, and on MRPC; and so is the same model from its first
weights, with the same tokeniser. Each arm has the learning rate, of three, that is best on 200 of
the 1,000 labels of the first seed; for all labels both have the middle one. Nothing is chosen by
the sentences that are reported on, GLUE's development sets; the weights are those of the last step.

Each training is a run below --out. Called again, the script goes on where it was stopped; --seeds
and --steps make parts of it.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import headway
from headway.base.errors import UserError
from headway.base.files import to_json, write_atomic
from headway.base.records import Records
from headway.base.runtime import environment
from headway.data.builtin_text import stdlib_documents
from headway.lens.charts import curves_svg

FEW = 1000  # labels
STEPS = 2700  # of pretraining: 40 minutes on one core
ARMS = ("scratch", "pretrained")
RATES = (1e-4, 3e-4, 1e-3)
MANY = 3e-4  # for all labels of SST-2: at 1e-3, chosen from scratch, the loss stays near 0.64
MODEL = {"preset": "bert-mini", "max_length": 128, "attention_dropout": 0.0}
DROPOUT = 0.1  # of fine-tuning; pretraining has none: it reads each text some four times only
PARTS = {"train": "train", "test": "dev"}
EPOCHS = {"sst2-1000": 10.0, "sst2": 2.0, "mrpc": 5.0}
Run = dict[str, Any]


def data(*names: str) -> Path:
    """A file of the real data. Raises UserError if it is not there."""
    path = Path(os.environ.get("HEADWAY_DATA", "")).joinpath(*names)
    if not os.environ.get("HEADWAY_DATA") or not path.is_file():
        raise UserError(f"HEADWAY_DATA names no folder with {'/'.join(names)}")
    return path


def docstrings() -> Iterator[str]:
    """The docstrings of each module of the standard library, as one text a module."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for _, source in stdlib_documents():
        nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
        text = "\n\n".join(filter(None, map(ast.get_docstring, nodes)))
        if text:
            yield text


def sources(out: Path) -> dict[str, dict[str, str]]:
    """Text to pretrain on: sentences of GLUE without labels, plays, captions, documentation."""
    made = out / "docstrings.jsonl"
    if not made.is_file():
        write_atomic(made, "".join(json.dumps({"text": text}) + "\n" for text in docstrings()))
    mrpc, rte = str(data("glue", "MRPC", "train.tsv")), str(data("glue", "RTE", "train.tsv"))
    return {
        "sst2": {"file": str(data("glue", "SST-2", "train.tsv")), "text": "sentence"},
        "mrpc_first": {"file": mrpc, "text": "#1 String"},
        "mrpc_second": {"file": mrpc, "text": "#2 String"},
        "rte": {"file": rte, "text": "sentence1"},
        "plays": {"files": str(data("text", "tinyshakespeare.txt")), "document": "block"},
        "captions": {"files": str(data("multi30k", "train.en.gz")), "document": "line"},
        "pydoc": {"corpus": "builtin:pydoc"},
        "docstrings": {"file": str(made)},
    }


def pretraining(out: Path, seed: int, steps: int) -> Run:
    """The recipe of the BERT of a seed."""
    return {
        "seed": seed,
        "data": {"kind": "documents", "length": 128, "held_out": 0.01, "train": sources(out)},
        "tokenizer": {"kind": "wordpiece", "size": 8000, "lowercase": True},
        "model": {**MODEL, "dropout": 0.0},
        "train": {
            "steps": steps,
            "batch_tokens": 4096,
            "optimizer": "muon",
            "learning_rate": 2e-3,
            "warmup": 300,
            "schedule": "wsd",
            "decay": 0.3,
            "final_rate": 0.0,
            "evaluate_every": 1000,
            "save_every": 1000,
        },
    }


def labels_of(out: Path, seed: int) -> Path:
    """A file of 1,000 rows of SST-2's training part that the seed draws."""
    path = out / f"sst2-{FEW}-{seed}.tsv"
    if not path.is_file():
        head, *rows = data("glue", "SST-2", "train.tsv").read_text("utf-8").splitlines()
        drawn = random.Random(seed).sample(rows, FEW)
        write_atomic(path, "".join(f"{row}\n" for row in (head, *drawn)))
    return path


def fine_tuning(out: Path, task: str, arm: str, seed: int, rate: float) -> Run:
    """The recipe of one arm; from scratch it has the pretrained model's settings and tokeniser."""
    folder, columns = "SST-2", {"text": "sentence", "label": "label"}
    if task == "mrpc":
        folder, columns = "MRPC", {"text": "#1 String", "second": "#2 String", "label": "Quality"}
    files = {part: data("glue", folder, f"{name}.tsv") for part, name in PARTS.items()}
    if task == "sst2-1000":
        files["train"] = labels_of(out, seed)
    run = pretrained(out, seed)
    begins: Run = {"model": {"from": str(run), "dropout": DROPOUT}}
    if arm == "scratch":
        begins = {
            "model": {**MODEL, "dropout": DROPOUT},
            "tokenizer": {"file": str(run / "tokenizer.json")},
        }
    parts = {name: {"file": str(file), **columns} for name, file in files.items()}
    train = {"epochs": EPOCHS[task], "batch_rows": 32, "learning_rate": rate, "log_every": 10}
    return {
        "seed": seed,
        "data": {"kind": "labels", "labels": ["0", "1"], **parts},
        "train": train,
        **begins,
    }


def pretrained(out: Path, seed: int) -> Path:
    """The run of the BERT of a seed."""
    return out / f"bert-{seed}"


def trained(run: Path, recipe: Run) -> list[Run]:
    """The log of a run, after it was trained to its end from where it was stopped."""
    if not (run / "report.html").is_file():
        begun = (run / "recipe.toml").is_file()
        headway.train(None if begun else recipe, out=run, resume=begun)
    return Records(run / "metrics.jsonl").read()


def last(log: list[Run], kind: str) -> Run:
    """The last record of a kind, without texts."""
    found = next(each for each in reversed(log) if each["kind"] == kind)
    return {key: value for key, value in found.items() if key != "passages"}


def best_rate(out: Path, arm: str, seed: int) -> tuple[float, dict[str, float]]:
    """The learning rate that tells most of 200 of the 1,000 labels, taught by the others."""
    told = {}
    for rate in RATES:
        recipe = fine_tuning(out, "sst2-1000", arm, seed, rate)
        recipe["data"] = {k: v for k, v in recipe["data"].items() if k != "test"}
        recipe["data"]["held_out"] = 0.2
        log = trained(out / "rates" / f"{arm}-{rate}", recipe)
        told[str(rate)] = last(log, "valid")["accuracy"]
    return float(max(told, key=lambda rate: told[rate])), told


def measured(out: Path, seeds: list[int], steps: int) -> Run:
    """All trainings, those that are done already taken as they are."""
    found: Run = {"pretraining": {}, "rates": {}, "tasks": {}, "curves": {}}
    for seed in seeds:
        log = trained(pretrained(out, seed), pretraining(out, seed, steps))
        train = last(log, "train")
        found["pretraining"][seed] = {
            "minutes": round(train["seconds"] / 60, 1),
            "tokens": train["tokens"],
            "valid": [each["nll"] for each in log if each["kind"] == "valid"],
            "test": last(log, "test"),
        }
        curve = [(each["step"], each["nll"]) for each in log if each["kind"] == "valid"]
        found["curves"][f"pretraining, seed {seed}"] = curve
    rates = {}
    for arm in ARMS:
        rates[arm], told = best_rate(out, arm, seeds[0])
        found["rates"][arm] = {"chosen": rates[arm], "accuracy": told}
    for task, arm in itertools.product(EPOCHS, ARMS):
        told = []
        for seed in seeds:
            recipe = fine_tuning(out, task, arm, seed, MANY if task == "sst2" else rates[arm])
            log = trained(out / task / f"{arm}-{seed}", recipe)
            told.append({**last(log, "test"), "seconds": last(log, "train")["seconds"]})
            if task == "sst2-1000":
                curve = [(each["step"], each["nll"]) for each in log if each["kind"] == "train"]
                found["curves"][f"{arm}, seed {seed}"] = curve
        found["tasks"].setdefault(task, {})[arm] = summary(told)
    return found


def summary(told: list[Run]) -> Run:
    """Mean and deviation over the seeds of each score, and all of them."""
    scores = [name for name in ("accuracy", "f1") if name in told[0]]
    values = {name: [each[name] for each in told] for name in scores}
    return {
        "mean": {name: mean(each) for name, each in values.items()},
        "deviation": {name: stdev(each) if len(each) > 1 else 0.0 for name, each in values.items()},
        "seeds": told,
    }


def main() -> None:
    """Train what is not trained yet; write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = measured(arguments.out, arguments.seeds, arguments.steps)
    curves = found["curves"]
    machine = environment()
    for task, arms in found["tasks"].items():
        told = "  ".join(f"{arm} {each['mean']['accuracy']:.1f}" for arm, each in arms.items())
        print(f"{task}: {told}")
    if arguments.json is not None:
        text = to_json({"commit": machine.pop("git"), "machine": machine, **found})
        for path, shown in {os.environ["HEADWAY_DATA"]: "$HEADWAY_DATA"}.items():
            text = text.replace(path, shown)
        write_atomic(arguments.json, text)
    if arguments.svg is not None:
        shown = {name: each for name, each in curves.items() if "pretraining" not in name}
        write_atomic(arguments.svg, curves_svg(shown, x="steps", y="loss on 1,000 labels"))


if __name__ == "__main__":
    main()
