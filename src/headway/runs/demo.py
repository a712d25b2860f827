"""The first thing that a newcomer runs: three small models side by side in a few minutes."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from headway.base.errors import UserError
from headway.base.files import remove_folder, write_atomic
from headway.base.progress import say
from headway.checkpoint.run import RunFolder
from headway.runs.report import scores_table, write_report
from headway.runs.report_parts import RunReport
from headway.runs.summary import run_report
from headway.runs.train import train
from headway.runs.translator import Translator

# The recipes of that name, cut to what two cores do in about a minute each: some kinds of
# expression, up to 24 words, smaller batches
MODELS: dict[str, dict[str, Any]] = {
    "rnn": {"train.steps": 650},
    "rnn-attention": {"train.steps": 550},
    "transformer": {
        "train.steps": 600,
        "model.d_model": 128,
        "model.d_feed_forward": 256,
        "model.n_heads": 4,
    },
}
_PARTS = {"train": 40_000, "valid": 100, "test": 600}
SHORT: dict[str, Any] = {
    **{f"data.{part}.lines": lines for part, lines in _PARTS.items()},
    **{f"data.{part}.kinds": ["date", "span", "spelled", "country"] for part in _PARTS},
    **{f"data.{part}.max_words": 24 for part in _PARTS},
    "tokenizer.size": 1077,  # what these kinds give: no warning greets a newcomer
    "train.batch_tokens": 1024,
    "train.learning_rate": 7e-3,
    "train.warmup": 100,
    "train.evaluate_every": 200,
    "train.save_every": 500,
    "evaluate.beam": 1,
}
MARK = ".headway-demo"
UNSEEN = 3  # sentences of the test part that are shown in the terminal


def run_demo(out: Path, *, device: str = "auto") -> dict[str, Any]:
    """Train the three models into `out`, compare them, write report.html; returns the scores.

    An earlier demo in `out` is replaced. Raises UserError if something else is there.
    """
    began = time.monotonic()
    _clear(out)
    write_atomic(out / MARK, "Made by headway demo, which replaces the runs in this folder.\n")
    reports: list[RunReport] = []
    translators: dict[str, Translator] = {}
    for number, (name, overrides) in enumerate(MODELS.items(), start=1):
        say(f"\n{number} of {len(MODELS)}: {name}")
        translators[name] = train(
            f"cldr/{name}", out=out / name, device=device, **SHORT, **overrides
        )
        reports.append(run_report(RunFolder(out / name), translators[name]))
    seconds = time.monotonic() - began
    page = out / "report.html"
    about = "French to English on expressions made from CLDR, in sentences that no model has seen."
    write_report(page, "Headway demo", reports, about=about)
    Console().print(scores_table(reports))
    _show(reports)
    say(
        f"\n{seconds:.0f} s. Open {page} for curves, samples and alignments. Next:\n{way()}"
        f'  headway attention {out}/transformer --source "3 mars 2021" --out attention.png\n'
        "  headway train cldr/transformer            the full recipe: every kind, up to 60 words\n"
        "  headway train pairs --set data.train.source=FILE --set data.train.target=FILE"
    )
    scores = {report.name: _table(report) for report in reports}
    return {"seconds": round(seconds, 1), **scores}


def _clear(out: Path) -> None:
    """Take away an earlier demo's runs, and nothing else."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError("there is a file of that name", where=str(out), todo="use --out DIR")
    if not (out / MARK).exists() and any((out / name).exists() for name in MODELS):
        raise UserError("runs that no demo made", where=str(out), todo="use --out DIR")
    known = {*MODELS, "report.html"}
    # dot files are a file browser's, or leftovers of a run that was killed
    names = (entry.name for entry in out.iterdir() if not entry.name.startswith("."))
    other = sorted(name for name in names if name not in known)
    if other:
        raise UserError(
            f"there is more than a demo in it ('{other[0]}')", where=str(out), todo="use --out DIR"
        )
    for name in MODELS:
        if (out / name).exists():
            remove_folder(out / name)


def _show(reports: list[RunReport]) -> None:
    for index in range(min(UNSEEN, len(reports[0].samples))):
        sample = reports[0].samples[index]
        say(f"\n{'source':14} {sample['source']}\n{'reference':14} {sample['reference']}")
        for report in reports:
            say(f"{report.name:14} {report.samples[index]['translation']}")


def way() -> str:
    """What the shell must be told to find `headway`, if it does not."""
    if shutil.which("headway") is not None:
        return ""
    place, here = Path(sys.prefix), Path.cwd()
    place = place.relative_to(here) if place.is_relative_to(here) else place
    return f"  source {place}/bin/activate\n"


def _table(report: RunReport) -> dict[str, Any]:
    assert report.scores is not None, "the demo's recipes have a test part"
    scores = report.scores.to_table()
    return {name: scores[name] for name in ("exact_match", "chrf", "by_length")}
