"""The tasks of prompting: questions and examples from GLUE's files or from rows of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.base.errors import UserError, is_broken, unknown
from headway.base.files import digest
from headway.data.examples import Examples
from headway.data.lines import stream_lines
from headway.data.tables import PartName
from headway.evaluate.prompting import PROMPTS, Question, fill
from headway.runs.glue import read_task, task_data
from headway.settings.glue import GLUE

_POOL = 4  # times the most examples of a question: so many rows of a file are set apart for them


@dataclass(frozen=True)
class PromptTask:
    """Questions, the pool of which examples are drawn, and the SHA-256 of the data of both."""

    name: str
    questions: list[Question]
    pool: list[Question]
    files: dict[str, str]
    template: str | None = None

    @property
    def bare(self) -> list[int]:
        """The lines that have no choices, of questions and examples."""
        return sorted(each.line for each in (*self.questions, *self.pool) if not each.choices)

    @property
    def same_choices(self) -> bool:
        """Whether all questions have one set of choices, so that answers can be balanced."""
        return not self.bare and len({each.choices for each in self.questions}) == 1


def glue_task(
    name: str,
    folder: str | Path | None,
    *,
    most: int,
    seed: int,
    lines: int | None,
    template: str | None,
) -> PromptTask:
    """A task of GLUE: questions of its validation part, examples of its training part.

    `folder` has the tasks' own folders; ${HEADWAY_DATA}/glue if it is None, hub:NAME a data set of
    the hub. A template has {text}
    and, of a pair, {second}. Raises UserError for a task that is not known or cannot be asked in
    words, and for fewer rows than `most` examples.
    """
    if name in GLUE and name not in PROMPTS:
        raise UserError(f"{name} asks for numbers, of which none can be chosen", where="--task")
    if name not in PROMPTS:
        raise unknown("task", name, PROMPTS)
    settings = task_data(name, folder)
    words = PROMPTS[name].words
    text = PROMPTS[name].template if template is None else template

    def questions(part: PartName) -> tuple[Examples, list[Question]]:
        found = read_task(name, settings, part, list(words))
        assert found is not None, "each task has both parts"
        made = []
        for line, row in zip(found.numbers, found.rows, strict=True):
            *texts, label = (each.strip() for each in row)
            fields = dict(zip(("text", "second"), texts, strict=False))
            prompt = fill(text, fields, where=name)
            made.append(Question(line, prompt, words[label], tuple(words.values())))
        return found, made

    valid, asked = questions("valid")
    digests, pool = {Path(valid.origin).name: valid.digest()}, list[Question]()
    if most:
        train, pool = questions("train")
        digests[Path(train.origin).name] = train.digest()
        _enough(pool, most, train.origin)
    return PromptTask(name, _divide(asked, 0, lines, seed)[0], pool, digests, text)


def file_task(
    path: Path, *, most: int, seed: int, lines: int | None, template: str | None
) -> PromptTask:
    """Rows of JSON: `prompt`, `answer`, and `choices` if the answer is one of some.

    The answer is a text, or the number of a choice, from 0 on. With a template the prompt is made
    of that, from any keys. Examples come from rows that are set apart by the seed and not asked.
    Raises UserError naming the line that is none of that, and for too few rows.
    """
    rows = [
        _row(line, f"{path}:{number}", number, template)
        for number, line in enumerate(stream_lines(path), start=1)
        if line.strip()
    ]
    if not rows:
        raise UserError("there is no question", where=str(path))
    asked, pool = _divide(rows, min(_POOL * most, len(rows) // 2), lines, seed)
    _enough(pool, most, str(path))
    return PromptTask(path.stem, asked, pool, {path.name: digest(path)}, template)


def _row(line: str | bytes, where: str, number: int, template: str | None) -> Question:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        todo = 'write one such as {"prompt": "2 + 2 =", "answer": "4"}'
        raise UserError("not a JSON object", where=where, todo=todo)
    choices, answer = row.get("choices", []), row.get("answer")
    if not _are_texts(choices) or len(choices) == 1:
        raise UserError("'choices' are two texts or more", where=where)
    if len(set(choices)) < len(choices):
        raise UserError("equal 'choices'", where=where, todo="write each once")
    if isinstance(answer, int) and not isinstance(answer, bool) and choices:
        answer = choices[answer] if 0 <= answer < len(choices) else None
    if not _are_texts([answer]) or (choices and answer not in choices):
        todo = "write one of the choices, or its number from 0 on" if choices else "write a text"
        raise UserError("no 'answer' that can be right", where=where, todo=todo)
    text = row.get("prompt") if template is None else fill(template, row, where=where)
    if not isinstance(text, str):
        raise UserError("no text 'prompt'", where=where, todo="write one, or give a template")
    if any(map(is_broken, (text, str(answer), *choices))):
        raise UserError("not valid Unicode: half of a surrogate pair", where=where)
    return Question(number, text, str(answer), tuple(choices))


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) and each for each in values)


def _divide(
    rows: list[Question], apart: int, lines: int | None, seed: int
) -> tuple[list[Question], list[Question]]:
    """The rows to ask, in order, and those set apart; draws of examples count from 1."""
    order = np.random.Generator(np.random.PCG64([seed, 0])).permutation(len(rows)).tolist()
    chosen = order[apart:][:lines]
    return [rows[place] for place in sorted(chosen)], [rows[place] for place in order[:apart]]


def _enough(pool: Sequence[Question], most: int, where: str) -> None:
    if len(pool) < most:
        raise UserError(
            f"{most} examples cannot be drawn from {len(pool)} rows",
            where=where,
            todo="ask with fewer: --shots",
        )
