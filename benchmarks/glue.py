"""Fine-tuning on GLUE by our recipes and by transformers' Trainer, with the same settings.

    python benchmarks/glue.py --from MODEL --task mrpc --json benchmarks/results/glue-mrpc.json

One run at a time, each in a process of its own, in turns: ours, theirs, for each seed. What is in
the file already is not run again, so that it can be stopped at any time. With --untimed seconds are
not kept, so that seeds can be run beside other work. With --keep FOLDER too, for what takes hours,
both save there and go on from there, and the Trainer puts rows of like length together, as ours
does. Else theirs is written the ordinary way: AutoModelForSequenceClassification,
DataCollatorWithPadding, Trainer. Evaluations and reading the data are not counted in `train_s`.
`peak_mib` is the most memory that the process which trains held, evaluations included; what goes on
from a checkpoint has none, since it is not the whole of a training.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

from contest import peak_mib

SETTINGS: dict[str, dict[str, Any]] = {  # beside BERT's: 32 rows, 128 tokens, linear, 10 % warm-up
    "mrpc": {"train.epochs": 4.0, "train.learning_rate": 1e-4},
    "rte": {"train.epochs": 4.0, "train.learning_rate": 1e-4},
    "cola": {"train.epochs": 4.0, "train.learning_rate": 1e-4},
    "sst2": {
        "train.epochs": 3.0,
        "train.learning_rate": 5e-5,
        "train.batch_rows": 128,
        "train.evaluate_every": 263,  # six times
    },
}
SEEDS = (1, 2, 3)
JUDGED = {"mrpc": "f1", "rte": "accuracy", "cola": "matthews", "sst2": "accuracy"}
SECONDS = ("train_s", "process_s")
PEAK = "peak_mib"
SCORES = ("accuracy", "f1", "matthews")


def run_ours(
    task: str, origin: str, seed: int, dtype: str, keep: Path | None = None
) -> dict[str, Any]:
    """`headway finetune` as a user calls it; what its log says. What stands in `keep` goes on."""
    from headway.checkpoint.run import RunFolder

    changes = {**SETTINGS[task], "seed": seed, "train.dtype": dtype, "train.log_every": 10}
    if keep:
        changes["train.save_every"] = 100
    with tempfile.TemporaryDirectory() as passing:
        out = keep or Path(passing) / "run"
        verb = ["finetune", f"glue/{task}", "--from", origin]
        verb += [word for each in changes.items() for word in ("--set", "{}={}".format(*each))]
        resumed = (out / "checkpoints").exists()
        if resumed:
            verb = ["train", "--resume"]
        script, peak = Path(__file__).with_name("peaked.py"), Path(passing) / "peak"
        words = [str(script), str(peak), *verb, "--out", str(out), "--device", "cpu"]
        subprocess.run([sys.executable, *words], check=True)
        held = {} if resumed else {PEAK: float(peak.read_text("utf-8"))}
        records = RunFolder(out).metrics.read()
        recipe = RunFolder(out).recipe()
    train = [each for each in records if each["kind"] == "train"]
    epochs = []
    for each in records:
        if each["kind"] == "valid":
            spent = max(t["seconds"] for t in train if t["step"] <= each["step"])
            epochs.append({"step": each["step"], "train_s": spent, **_scores(each)})
    return {
        "train_s": train[-1]["seconds"],
        "steps": train[-1]["step"],
        "dtype": recipe["train"]["dtype"],
        **held,
        "epochs": epochs,
    }


def run_theirs(
    task: str, origin: str, seed: int, dtype: str, keep: Path | None = None
) -> dict[str, Any]:
    """The same by transformers' Trainer; what it saves in `keep` it goes on from."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )
    from transformers.trainer_utils import get_last_checkpoint

    from headway.data.labelled import classes_of, read_labelled
    from headway.evaluate.labels import class_scores
    from headway.settings.recipe import load_recipe

    begin = {"model.preset": "bert-tiny", "model.from": origin}
    recipe: Any = load_recipe(f"glue/{task}", {**begin, **SETTINGS[task]})
    train, valid = (read_labelled(recipe.data, part) for part in ("train", "valid"))
    assert train is not None
    assert valid is not None
    classes = classes_of(train)
    tokenizer = AutoTokenizer.from_pretrained(origin)

    def encoded(part: Any) -> list[dict[str, Any]]:
        texts = [part.column(place) for place in range(len(part.rows[0]) - 1)]
        made = tokenizer(*texts, truncation=True, max_length=recipe.data.max_tokens)
        labels = [classes.index(label) for label in part.column(-1)]
        rows = zip(*made.values(), strict=True)
        return [
            dict(zip(made, row, strict=True), label=y) for row, y in zip(rows, labels, strict=True)
        ]

    spent = [0.0, 0.0]  # seconds of training, and when the epoch began

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_epoch_begin(self, *args: Any, **keys: Any) -> None:
            spent[1] = time.perf_counter()

        def on_epoch_end(self, *args: Any, **keys: Any) -> None:
            spent[0] += time.perf_counter() - spent[1]

        def on_evaluate(self, *args: Any, metrics: dict[str, float], **keys: Any) -> None:
            if every:  # within the epoch
                spent[1] += metrics["eval_runtime"]

    def judge(found: Any) -> dict[str, float]:
        told = found.predictions.argmax(axis=-1)
        scores = class_scores(found.label_ids.astype("int64"), told, len(classes))
        return _scores(scores)

    settings, every = recipe.train, recipe.train.evaluate_every
    sampling = "group_by_length" if keep else "random"
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(origin, num_labels=len(classes))
    with tempfile.TemporaryDirectory() as passing:
        folder = str(keep or passing)
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                num_train_epochs=settings.epochs,
                per_device_train_batch_size=settings.batch_rows,
                per_device_eval_batch_size=64,
                learning_rate=settings.learning_rate,
                lr_scheduler_type=settings.schedule,
                warmup_steps=settings.warmup_share,
                weight_decay=settings.weight_decay,
                adam_beta1=settings.betas[0],
                adam_beta2=settings.betas[1],
                adam_epsilon=settings.eps,
                max_grad_norm=settings.clip,
                bf16=dtype == "bfloat16",
                seed=seed,
                use_cpu=True,
                train_sampling_strategy=sampling,
                eval_strategy="steps" if every else "epoch",
                eval_steps=every or None,
                save_strategy="steps" if keep else "no",
                save_steps=100,
                save_total_limit=1,
                logging_steps=50,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=encoded(train),
            eval_dataset=encoded(valid),
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=judge,
            callbacks=[Clock()],
        )
        saved = get_last_checkpoint(folder)
        trainer.train(resume_from_checkpoint=saved)
        held = {} if saved else {PEAK: round(peak_mib(), 1)}
    return {
        "train_s": round(spent[0], 3),
        "steps": trainer.state.global_step,
        "dtype": dtype,
        "sampling": sampling,
        **held,
        "epochs": [
            {"step": each["step"], **{name: each[f"eval_{name}"] for name in SCORES}}
            for each in trainer.state.log_history
            if "eval_loss" in each
        ],
    }


def _scores(record: dict[str, Any]) -> dict[str, float]:
    return {name: record[name] for name in SCORES}


def summary(runs: list[dict[str, Any]], judged: str) -> dict[str, Any]:
    """Of each side the scores of the last epoch and of the best by what the task is judged by, over
    the seeds; and how much less time and memory ours took, where both were measured.
    """
    found: dict[str, Any] = {}
    for who in ("headway", "trainer"):
        own = [run for run in runs if run["who"] == who]
        if own:
            last = [_scores(run["epochs"][-1]) for run in own]
            best = [max(_scores(epoch)[judged] for epoch in run["epochs"]) for run in own]
            found[who] = {
                **{name: [round(each[name], 2) for each in last] for name in last[0]},
                f"best {judged}": [round(each, 2) for each in best],
                f"mean of best {judged}": round(mean(best), 2),
                **{name: [run[name] for run in own if name in run] for name in (*SECONDS, PEAK)},
            }
    for name in SECONDS:
        times = [found.get(who, {}).get(name) for who in ("headway", "trainer")]
        if all(times):
            found[f"{name}_ratio"] = round(mean(times[0]) / mean(times[1]), 3)
    peaks = [found.get(who, {}).get(PEAK) for who in ("headway", "trainer")]
    if all(peaks):
        found[f"{PEAK}_ratio"] = round(max(peaks[0]) / max(peaks[1]), 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="origin", required=True)
    parser.add_argument("--task", choices=SETTINGS, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--who", choices=("headway", "trainer"), nargs="+")
    parser.add_argument("--dtype", default="auto", help="of ours; theirs has the one that ours had")
    parser.add_argument("--untimed", action="store_true", help="beside other work: scores alone")
    parser.add_argument("--keep", type=Path, help="where an untimed Trainer saves and goes on from")
    parser.add_argument("--one", action="store_true", help="run one and print it: for the others")
    given = parser.parse_args()
    if given.keep and not given.untimed:
        parser.error("a run that goes on from what it saved has no time: --untimed too")
    if given.one:
        words = (given.task, given.origin, given.seeds[0], given.dtype)
        ours = given.who[0] == "headway"
        found = (run_ours if ours else run_theirs)(*words, given.keep)
        given.json.write_text(json.dumps(found), encoding="utf-8")
        return
    from headway.base.files import to_json, write_atomic
    from headway.base.runtime import environment

    for seed in given.seeds:
        for who in given.who or ("headway", "trainer"):
            table = _known(given.json)
            if any((run["who"], run["seed"]) == (who, seed) for run in table["runs"]):
                continue
            dtype = given.dtype
            if who == "trainer":
                own = [run["dtype"] for run in table["runs"] if run["who"] == "headway"]
                dtype = own[0] if own else "float32"
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "one.json"
                words = ["--from", given.origin, "--task", given.task, "--json", str(out)]
                words += ["--who", who, "--seeds", str(seed), "--dtype", dtype, "--one"]
                if given.keep:
                    words += ["--untimed", "--keep", str(given.keep / f"{given.task}-{who}-{seed}")]
                began = time.perf_counter()
                subprocess.run([sys.executable, __file__, *words], check=True)
                found = json.loads(out.read_text("utf-8"))
            seconds = round(time.perf_counter() - began, 3)
            run = {"who": who, "seed": seed, "process_s": seconds, **found}
            if given.untimed:
                run = {name: value for name, value in run.items() if name not in SECONDS}
            with Path(__file__).open(encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be adding to the table
                table = _known(given.json)
                table["runs"].append(run)
                table["runs"].sort(key=lambda run: (run["seed"], run["who"]))
                table |= {
                    "task": f"glue/{given.task}",
                    "settings": SETTINGS[given.task],
                    "model": Path(os.path.abspath(given.origin)).name,
                    "machine": environment(),
                    "summary": summary(table["runs"], JUDGED[given.task]),
                }
                write_atomic(given.json, to_json(table))
            print(json.dumps({"who": who, "seed": seed, **found["epochs"][-1]}), flush=True)
    print(json.dumps(_known(given.json).get("summary"), indent=2))


def _known(path: Path) -> dict[str, Any]:
    """What is in the file already."""
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": []}
    return known


if __name__ == "__main__":
    main()
