"""Zero- and few-shot prompting: a language model asked a task's questions, after some examples."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headway.base.errors import UserError
from headway.base.progress import ProgressBar
from headway.base.showing import Table
from headway.evaluate.prompting import (
    NEAR_TIE,
    NORMALISED,
    Accuracy,
    Question,
    accuracy,
    before,
    choose,
    draw_examples,
)
from headway.lens.figures import Curves, Value, draw_panels
from headway.runs.generated import Sampling
from headway.runs.language_model import LanguageModel
from headway.runs.open_model import open_language_model
from headway.runs.prompt_tasks import PromptTask, file_task, glue_task

By = Literal["likelihood", "generation"]
Record = dict[str, Any]
Tell = Callable[[int], object] | None
SHOTS = (0, 1, 4, 16)
_WRITTEN = Sampling(temperature=0.0, max_new_tokens=64, stop=("\n",))


@dataclass(frozen=True)
class Point:
    """How it went with so many examples: over all draws, and each alone.

    `examples` are the lines of each draw's; `by_bytes` judges by the log-probability a byte.
    """

    shots: int
    accuracy: Accuracy
    by_bytes: Accuracy | None
    draws: list[Accuracy]
    examples: list[list[int]]
    near_ties: int


@dataclass(frozen=True)
class Prompted:
    """What prompting found: a point for each number of examples, a record for each answer."""

    settings: dict[str, Any]
    points: list[Point]
    records: list[Record] = field(repr=False)

    def to_table(self) -> dict[str, Any]:
        """All but the records as plain values for JSON."""
        points = []
        for point in self.points:
            table = asdict(point)
            table["accuracy"]["normalised"] = point.accuracy.normalised
            points.append(table)
        return {**self.settings, "normalised": NORMALISED, "points": points}

    def table(self) -> Table:
        """The points as people read them."""
        rows: list[list[object]] = []
        for point in self.points:
            found, each = point.accuracy, [draw.percent for draw in point.draws]
            row: list[object] = [point.shots, found.percent, f"{found.low:.1f}–{found.high:.1f}"]
            row += [f"{min(each):.1f}–{max(each):.1f}" if len(each) > 1 else "", found.normalised]
            if point.by_bytes is not None:
                row += [point.by_bytes.percent, point.near_ties]
            rows.append(row)
        head = ["examples", "accuracy, %", "interval of 95 %", "draws", "normalised"]
        head += ["by byte, %", "near ties"] if self.points[0].by_bytes else []
        told = f"{self.settings['questions']} questions, by {self.settings['by']}"
        caption = f"{self.settings['task']}: {told}; normalised = {NORMALISED}"
        return Table(head, rows, f"{caption}, chance {self.points[0].accuracy.chance:.1f} %")

    def draw(self, path: Path) -> None:
        """The points as curves, with their intervals as bands: an .svg or .png file."""
        ways = {"accuracy": [(point.shots, point.accuracy) for point in self.points]}
        by_bytes = [(p.shots, p.by_bytes) for p in self.points if p.by_bytes is not None]
        if by_bytes and by_bytes != ways["accuracy"]:
            ways = {"by log-likelihood": ways["accuracy"], "by log-likelihood a byte": by_bytes}
        curves = {
            name: [(float(n), Value(each.percent, each.low, each.high)) for n, each in points]
            for name, points in ways.items()
        }
        chance, most = self.points[0].accuracy.chance, float(self.points[-1].shots)
        panel = Curves(
            f"{self.settings['questions']} questions",
            x="examples",
            y="accuracy, %",
            series=curves,
            at_points=True,
            percent=True,
            straight={"chance": [(0.0, chance), (most, chance)]} if chance else {},
        )
        below = f"bands: intervals of 95 %; draws of examples: {self.settings['draws']}"
        draw_panels([panel], path, title=self.settings["task"], below=below)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def prompt(  # long: its settings
    model: LanguageModel | str | Path,
    task: str | None = None,
    *,
    glue: str | Path | None = None,
    file: str | Path | None = None,
    template: str | None = None,
    shots: Sequence[int] = SHOTS,
    draws: int = 5,
    seed: int = 1,
    lines: int | None = None,
    by: By | None = None,
    balanced: bool | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Prompted:
    """Ask a language model the questions of a `task` of GLUE (`glue/sst2`, …), or of a `file`.

    `glue` is the folder of GLUE, ${HEADWAY_DATA}/glue if not set.

    Each number of `shots` is tried with as many draws of examples, none (0) with one. `lines`
    takes a part of the questions, drawn by the seed. `by` "likelihood" takes the likeliest choice,
    "generation" what is written up to the end of the line, which has to be the answer; choices
    are chosen from unless it is set. Examples have the answers in turn (`balanced`) where all
    questions have the same choices. See `file_task` for the rows of a file, `glue_task` for
    templates. Raises UserError for what cannot be asked.
    """
    _check(task, glue, file, shots, draws, lines)
    shots = sorted(set(shots))
    most = shots[-1]
    if task is not None:
        place = None if glue is None else Path(glue)
        asked = glue_task(task, place, most=most, seed=seed, lines=lines, template=template)
    else:
        asked = file_task(Path(file or ""), most=most, seed=seed, lines=lines, template=template)
    bare, n_rows = asked.bare, len(asked.questions) + len(asked.pool)
    if bare and (by == "likelihood" or (by is None and len(bare) < n_rows)):
        todo = "give each row some, or ask by generation"
        raise UserError("not all rows have choices", where=f"{file}:{bare[0]}", todo=todo)
    by = by or ("generation" if bare else "likelihood")
    balanced = asked.same_choices if balanced is None else balanced
    opened = (
        model if isinstance(model, LanguageModel) else open_language_model(model, device=device)
    )
    n_trials = sum(draws if n else 1 for n in shots)
    answers = sum(len(each.choices) if by == "likelihood" else 1 for each in asked.questions)
    bar = ProgressBar("prompting", n_trials * answers, unit="answers") if progress else None
    points, records = [], []
    with bar or contextlib.nullcontext():
        for n in shots:
            examples = [
                draw_examples(asked.pool, n, seed=seed, draw=draw, balanced=balanced)
                for draw in range(1, 1 + (draws if n else 1))
            ]
            found = _ask(opened, asked, examples, by, bar.advance if bar else None)
            points.append(_point(n, found, examples, seed))
            records += [record for part in found for record in part]
    settings = {
        "model": "" if opened is model else str(model),
        "task": asked.name,
        "template": asked.template,
        "files": asked.files,
        "questions": len(asked.questions),
        "commonest_answer": _commonest(asked.questions) if asked.same_choices else None,
        "pool": len(asked.pool),
        "by": by,
        "shots": shots,
        "draws": draws,
        "balanced": balanced,
        "seed": seed,
        "lines": lines,
        "near_tie_nats": NEAR_TIE,
    }
    return Prompted(settings, points, records)


def _commonest(questions: Sequence[Question]) -> float:
    """What always giving the commonest answer would get, in percent."""
    counts = Counter(each.answer for each in questions)
    return 100.0 * max(counts.values()) / len(questions)


def _check(
    task: str | None,
    glue: str | Path | None,
    file: str | Path | None,
    shots: Sequence[int],
    draws: int,
    lines: int | None,
) -> None:
    if (task is None) == (file is None) or (task is None and glue is not None):
        raise UserError(
            "what to ask is a task of GLUE, or a file",
            todo="write --task NAME, perhaps with --glue DIR, or --file FILE",
        )
    if not isinstance(task, str | None):
        raise UserError("a task is a name", where="task", todo="questions of your own are a file")
    if not shots or min(shots) < 0:
        raise UserError("numbers of examples are 0 or more", where="shots", todo="such as 0,1,4")
    if draws < 1 or (lines is not None and lines < 1):
        raise UserError("draws and lines are 1 or more")


def _ask(
    model: LanguageModel, task: PromptTask, draws: Sequence[list[Question]], by: By, tell: Tell
) -> list[list[Record]]:
    """The records of all questions after the examples of each draw."""
    found = []
    for draw, examples in enumerate(draws, start=1):
        ask = _choose if by == "likelihood" else _write
        known = {"shots": len(examples), "draw": draw}
        found.append([known | each for each in ask(model, before(examples), task.questions, tell)])
    return found


def _choose(
    model: LanguageModel, examples: str, questions: Sequence[Question], tell: Tell
) -> list[Record]:
    requests = [
        (examples + each.prompt, each.ending(choice))
        for each in questions
        for choice in each.choices
    ]
    scored = iter(model.log_likelihoods(requests, tell=tell))
    found = []
    for each in questions:
        log_probs = [next(scored).log_prob for _ in each.choices]
        chosen = choose(log_probs, each.choices)
        found.append(
            {
                "line": each.line,
                "prompt": each.prompt,
                "choices": each.choices,
                "log_probs": log_probs,
                "margin": chosen.margin,
                "near_tie": chosen.near_tie,
                "answer": each.answer,
                "right": each.choices[chosen.likeliest] == each.answer,
                "right_by_bytes": each.choices[chosen.likeliest_by_bytes] == each.answer,
            }
        )
    return found


def _write(
    model: LanguageModel, examples: str, questions: Sequence[Question], tell: Tell
) -> list[Record]:
    written = model.generate([examples + each.prompt for each in questions], _WRITTEN, cut=True)
    if tell:
        tell(len(written))
    return [
        {
            "line": each.line,
            "prompt": each.prompt,
            "text": one.text,
            "answer": each.answer,
            "right": one.text.strip() == each.answer.strip(),
        }
        for each, one in zip(questions, written, strict=True)
    ]


def _point(
    n: int, rounds: list[list[Record]], examples: Sequence[list[Question]], seed: int
) -> Point:
    chooses = "choices" in rounds[0][0]
    chance = float(np.mean([100 / len(r["choices"]) for r in rounds[0]])) if chooses else 0.0

    def judged(key: str, parts: list[list[Record]]) -> Accuracy:
        return accuracy([[r[key] for r in part] for part in parts], chance, seed=seed)

    return Point(
        n,
        judged("right", rounds),
        judged("right_by_bytes", rounds) if chooses else None,
        [judged("right", [part]) for part in rounds],
        [[each.line for each in drawn] for drawn in examples],
        sum(r.get("near_tie", False) for part in rounds for r in part),
    )
