"""Prompting: questions from templates, examples drawn by a seed, scores with intervals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.base.errors import UserError, unknown

NORMALISED = "(accuracy - chance) / (1 - chance)"
"""0 is what guessing gives, 1 is all right; leaderboards may print this in place of accuracy."""
NEAR_TIE = 1e-3  # nats between the two likeliest choices: rounding may turn these
_APART = "\n\n"  # between examples
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_CONFIDENT = 1.959964  # deviations of a normal law that hold 95 % of it
_RESAMPLES = 2000


class Prompt(NamedTuple):
    """How labelled rows become questions: a text with {text} and {second}, a word a label."""

    template: str
    words: Mapping[str, str]


_YES = {"0": "No", "1": "Yes"}
_SAME = "First: {text}\nSecond: {second}\nQuestion: Do both say the same? Yes or No?\nAnswer:"
_TRUE = "{text}\nQuestion: {second} True or False?\nAnswer:"
PROMPTS: Mapping[str, Prompt] = {
    "glue/cola": Prompt(
        "{text}\nQuestion: Is this sentence good English? Yes or No?\nAnswer:", _YES
    ),
    "glue/sst2": Prompt("Review: {text}\nSentiment:", {"0": "negative", "1": "positive"}),
    "glue/mrpc": Prompt(_SAME, _YES),
    "glue/qqp": Prompt(_SAME, _YES),
    "glue/mnli": Prompt(
        "{text}\nQuestion: {second} True, False or Neither?\nAnswer:",
        {"entailment": "True", "neutral": "Neither", "contradiction": "False"},
    ),
    "glue/qnli": Prompt(
        "{second}\nQuestion: Does this answer '{text}'? Yes or No?\nAnswer:",
        {"entailment": "Yes", "not_entailment": "No"},
    ),
    "glue/rte": Prompt(_TRUE, {"entailment": "True", "not_entailment": "False"}),
    "glue/wnli": Prompt(_TRUE, {"0": "False", "1": "True"}),
}
"""Ours; each task of GLUE that has classes (STS-B has grades, which no word says)."""


@dataclass(frozen=True)
class Question:
    """What a model is asked: to choose, or without `choices` to write `answer`.

    `line` is where it stands in its file.
    """

    line: int
    prompt: str
    answer: str
    choices: tuple[str, ...] = ()

    def ending(self, text: str) -> str:
        """A text as it follows the prompt: a space parts them where neither has a blank."""
        apart = not self.prompt or self.prompt[-1].isspace() or text[:1].isspace()
        return text if apart else f" {text}"


def fill(template: str, fields: Mapping[str, object], *, where: str) -> str:
    """The template with each `{field}` replaced; a brace that is text is doubled.

    Raises UserError for a field that is not there, another brace, and if there is no field.
    """
    taken = 0

    def value(found: re.Match[str]) -> str:
        nonlocal taken
        if len(found[0]) == 1:
            todo = "close the field, or double it if it is text"
            raise UserError(
                "the template has a brace that is none of a field", where=where, todo=todo
            )
        if found[1] is None:
            return found[0][0]
        if found[1] not in fields:
            raise unknown("field of the template", found[1], fields, where=where)
        taken += 1
        return str(fields[found[1]])

    made = _FIELD.sub(value, template)
    if not taken:
        todo = f"write {' or '.join(f'{{{name}}}' for name in fields)} where it belongs"
        raise UserError("the template has no field", where=where, todo=todo)
    return made


def draw_examples(
    pool: Sequence[Question], shots: int, *, seed: int, draw: int, balanced: bool
) -> list[Question]:
    """`shots` examples; fewer are the first of more.

    `balanced` takes each answer in turn, in an order that is drawn as well; else they are drawn
    whatever their answers.
    """
    random = np.random.Generator(np.random.PCG64([seed, draw]))
    order = random.permutation(len(pool)).tolist()
    if balanced:
        seen: Counter[str] = Counter()
        rounds = {}
        for place in order:
            rounds[place] = seen[pool[place].answer]
            seen[pool[place].answer] += 1
        order.sort(key=rounds.__getitem__)
    return [pool[place] for place in order[:shots]]


def before(examples: Sequence[Question]) -> str:
    """The examples with their answers, as they stand before a question."""
    return "".join(f"{each.prompt}{each.ending(each.answer)}{_APART}" for each in examples)


class Choice(NamedTuple):
    """What a model chose: by the log-probability, and by that a byte of the choice.

    `margin` is how far the likeliest is before the next, in nats.
    """

    likeliest: int
    likeliest_by_bytes: int
    margin: float

    @property
    def near_tie(self) -> bool:
        """Whether rounding may have decided."""
        return self.margin < NEAR_TIE


def choose(log_probs: Sequence[float], choices: Sequence[str]) -> Choice:
    """The choice of the greatest log-probability; the first of equal ones."""
    a_byte = [each / len(text.encode()) for each, text in zip(log_probs, choices, strict=True)]
    first, second = sorted(log_probs, reverse=True)[:2]
    return Choice(log_probs.index(first), a_byte.index(max(a_byte)), first - second)


@dataclass(frozen=True)
class Accuracy:
    """The share of right answers in percent, its interval of 95 %, and what guessing would give."""

    percent: float
    low: float
    high: float
    chance: float

    @property
    def normalised(self) -> float:
        """`NORMALISED`, in percent: 0 for guessing; below 0 for less."""
        return 100.0 * (self.percent - self.chance) / (100.0 - self.chance)


def accuracy(right: Sequence[Sequence[bool]], chance: float, *, seed: int) -> Accuracy:
    """Over draws of examples (rows), each with the same questions; `chance` in percent.

    The interval of one draw is Wilson's, that of several is by bootstrap: draws and questions
    are drawn anew, both, 2,000 times. Where all answers are right, or none, to draw anew tells
    nothing: it is Wilson's over the questions then.
    """
    table = np.array(right, dtype=bool)
    low, high = wilson(int(table[0].sum()), table.shape[1])
    if len(table) > 1 and not (table.all() or not table.any()):
        low, high = _bootstrap(table, seed)
    return Accuracy(100.0 * float(table.mean()), 100.0 * low, 100.0 * high, chance)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The interval of 95 % of a share (Wilson, 1927)."""
    share, squared = hits / n, _CONFIDENT**2
    middle = share + squared / (2 * n)
    half = _CONFIDENT * (share * (1 - share) / n + squared / (4 * n * n)) ** 0.5
    low, high = (middle - half) / (1 + squared / n), (middle + half) / (1 + squared / n)
    return max(0.0, low), min(1.0, high)


def _bootstrap(table: npt.NDArray[np.bool_], seed: int) -> tuple[float, float]:
    random = np.random.Generator(np.random.PCG64(seed))
    draws, n = table.shape
    means = [
        table[random.integers(draws, size=draws)][:, random.integers(n, size=n)].mean()
        for _ in range(_RESAMPLES)
    ]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)
