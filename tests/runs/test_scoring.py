"""Forced decoding: each token's log-probability is what stepping through the model gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import headway
from headway.runs.sentences import LongText, cut
from headway.runs.translator import Translator

Run = Callable[[str], Path]
SOURCES = ["un petit chien boit vert", "chat", "deux chat rouge", "hippopotame", ""]
TARGETS = ["one small dog drinks green", "", "two red cat", "hippopotamus", "one"]


@pytest.fixture(scope="module", params=["transformer", "attention", "plain"])
def translator(request: pytest.FixtureRequest, trained: Run) -> Translator:
    return headway.load(trained(request.param), device="cpu")


def test_each_token_has_the_log_probability_of_its_step(translator: Translator) -> None:
    told: list[int] = []
    found = translator.score_tokens(SOURCES, TARGETS, tell=told.append)
    assert sum(told) == len(SOURCES)
    eos, bos = translator.tokenizers.target.eos, translator.tokenizers.target.bos
    for source, target, scores in zip(SOURCES, TARGETS, found, strict=True):
        (ids,) = translator.tokenizers.source.encode([source])
        assert scores.ids == translator.tokenizers.target.encode([target])[0]
        assert scores.ids[-1] == eos
        with torch.no_grad():
            state = translator.model.start(torch.tensor([ids]), torch.tensor([len(ids)]))
            last = bos
            for id, log_prob in zip(scores.ids, scores.log_probs, strict=True):
                logits, state = translator.model.step(torch.tensor([[last]]), state)
                wanted = float(logits[0, -1].double().log_softmax(-1)[id])
                assert log_prob == pytest.approx(wanted, abs=1e-4)
                last = id
        assert scores.log_prob == pytest.approx(sum(scores.log_probs))


def test_scores_do_not_depend_on_the_batch(translator: Translator) -> None:
    together = translator.score(SOURCES, TARGETS)
    alone = [
        translator.score([source], [target])[0]
        for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    assert together == pytest.approx(alone, abs=1e-4)


def test_warnings_name_the_lines_of_the_whole(translator: Translator) -> None:
    long = " ".join(["chat"] * 200)
    with pytest.warns(LongText, match="line 101 has"):
        translator.score_tokens(["un", long], ["one", "cat"], first=100)
    with pytest.warns(LongText, match="line 2049 has"):
        translator.n_best([long, "un"], 1, beam=1, first=2049)


def test_many_long_lines_are_told_in_one_warning() -> None:
    """A warning a line floods standard error, and Python remembers the text of each."""
    rows = [[5] * (3 + number % 2) for number in range(60)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = cut(rows, 3, eos=1, numbers=range(1, 61))
        cut(rows[:4], 3, eos=1, numbers=range(1, 5))
        cut(rows[:1], 3, eos=1, numbers=[1])
    assert found == [[5, 5, 5 if len(row) == 3 else 1] for row in rows]
    many, few = (str(each.message) for each in told)
    named = ", ".join(str(number) for number in range(2, 41, 2))
    assert many.startswith(f"lines {named}, … (30 in all) have more tokens and were cut to the 3 ")
    assert few.startswith("lines 2, 4 have more tokens and were cut to the 3 ")
