"""Templates, draws of examples, choices and intervals of prompting."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from headway.base.errors import UserError
from headway.evaluate.prompting import (
    PROMPTS,
    Accuracy,
    Question,
    accuracy,
    before,
    choose,
    draw_examples,
    fill,
    wilson,
)
from headway.settings.glue import GLUE

POOL = [
    Question(line, f"q{line}", "yes" if line % 4 else "no", ("no", "yes")) for line in range(40)
]


def test_a_template_takes_fields_and_doubled_braces() -> None:
    made = fill("{a} {#1 String} f{{x: 1}} {{{a}}}", {"a": 1, "#1 String": "two"}, where="t")
    assert made == "1 two f{x: 1} {1}"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{sentense}", r"^t: unknown field of the template 'sentense'.*'sentence'"),
        ("{sentence!r}", "unknown field of the template 'sentence!r'"),
        ("{sentence.__class__}", "unknown field of the template 'sentence.__class__'"),
        ("{}", "unknown field of the template ''"),
        ("{sentence", "a brace that is none of a field.*or double it"),
        ("{sentence} }", "a brace that is none of a field"),
        ("Answer:", "the template has no field.*write {sentence}"),
        ("{{sentence}}", "the template has no field"),
        ("", "the template has no field"),
    ],
)
def test_a_template_that_asks_nothing(template: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        fill(template, {"sentence": "x"}, where="t")


def test_a_field_that_holds_braces_is_text() -> None:
    assert fill("{a}{b}", {"a": "{b}", "b": "x"}, where="t") == "{b}x"


@pytest.mark.parametrize(
    ("prompt", "text", "whole"),
    [
        ("Q:", "yes", "Q: yes"),
        ("Q:\n", "yes", "Q:\nyes"),
        ("Q: ", "yes", "Q: yes"),
        ("Q:", "\nyes", "Q:\nyes"),
        ("", "yes", "yes"),
    ],
)
def test_one_blank_parts_a_prompt_from_what_follows(prompt: str, text: str, whole: str) -> None:
    assert prompt + Question(1, prompt, text).ending(text) == whole


def test_examples_stand_before_a_question_with_their_answers() -> None:
    assert before([]) == ""
    assert before(POOL[:2]) == "q0 no\n\nq1 yes\n\n"


@pytest.mark.parametrize("balanced", [False, True])
def test_fewer_examples_are_the_first_of_more(balanced: bool) -> None:
    draws = [draw_examples(POOL, n, seed=3, draw=1, balanced=balanced) for n in (1, 4, 16)]
    assert [len(set(each)) for each in draws] == [1, 4, 16]
    assert draws[0] == draws[2][:1]
    assert draws[1] == draws[2][:4]


def test_balanced_examples_have_each_answer_as_often() -> None:
    for draw in range(1, 6):
        found = draw_examples(POOL, 16, seed=1, draw=draw, balanced=True)
        assert Counter(each.answer for each in found) == {"yes": 8, "no": 8}
    as_drawn = draw_examples(POOL, 16, seed=1, draw=1, balanced=False)
    assert Counter(each.answer for each in as_drawn)["yes"] > 8
    firsts = {draw_examples(POOL, 1, seed=1, draw=n, balanced=True)[0].answer for n in range(9)}
    assert firsts == {"yes", "no"}


def test_draws_and_seeds_differ_and_can_be_repeated() -> None:
    def lines(seed: int, draw: int) -> list[int]:
        return [e.line for e in draw_examples(POOL, 4, seed=seed, draw=draw, balanced=False)]

    assert lines(1, 1) == lines(1, 1)
    assert len({tuple(lines(seed, draw)) for seed in (1, 2) for draw in (1, 2)}) == 4


def test_a_long_choice_can_win_by_the_byte() -> None:
    found = choose([-2.0, -3.0], ["no", "certainly"])
    assert (found.likeliest, found.likeliest_by_bytes, found.margin) == (0, 1, 1.0)
    assert not found.near_tie
    assert choose([-3.0, -2.9999, -9.0], ["a", "b", "c"]).near_tie
    assert choose([-3.0, -2.0], ["é", "e"]).likeliest_by_bytes == 0  # of two bytes


def test_what_guessing_gives_is_nothing() -> None:
    assert Accuracy(25.0, 0.0, 0.0, chance=25.0).normalised == 0.0
    assert Accuracy(100.0, 0.0, 0.0, chance=25.0).normalised == 100.0
    assert Accuracy(62.5, 0.0, 0.0, chance=25.0).normalised == 50.0
    assert Accuracy(10.0, 0.0, 0.0, chance=25.0).normalised == pytest.approx(-20.0)


def test_wilson_is_as_published() -> None:
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29
    for (hits, n), wanted in {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(hits, n) == pytest.approx(wanted, abs=5e-5)


def test_several_draws_widen_the_interval() -> None:
    random = np.random.default_rng(0)
    alike = [(random.random(200) < 0.7).tolist()] * 5
    one, same = accuracy(alike[:1], 50.0, seed=1), accuracy(alike, 50.0, seed=1)
    assert one.percent == same.percent
    assert same.high - same.low == pytest.approx(one.high - one.low, abs=1.0)
    apart = [(random.random(200) < share).tolist() for share in (0.5, 0.6, 0.7, 0.8, 0.9)]
    spread = accuracy(apart, 50.0, seed=1)
    assert spread.high - spread.low > 1.4 * (same.high - same.low)
    assert spread == accuracy(apart, 50.0, seed=1)


def test_an_interval_of_draws_that_are_all_right_is_that_of_the_questions() -> None:
    one, several = (accuracy([[True] * 7] * draws, 50.0, seed=1) for draws in (1, 5))
    assert several == one
    assert one.low < 70
    assert accuracy([[False] * 7] * 3, 50.0, seed=1).low == 0.0
    assert all(0 <= end <= 1 for n in range(1, 300) for k in (0, n) for end in wilson(k, n))


def test_each_task_of_glue_with_classes_has_a_prompt() -> None:
    assert set(PROMPTS) == {name for name, task in GLUE.items() if not task.regression}
    for name, made in PROMPTS.items():
        pair = len(GLUE[name].columns) == 3
        fields = re.findall(r"\{(.+?)\}", made.template)
        assert sorted(fields) == (["second", "text"] if pair else ["text"])
        assert len(set(made.words.values())) == len(made.words) >= 2
