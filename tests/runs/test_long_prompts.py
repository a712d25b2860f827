"""Prompts that fill a model's context, asked by generation: they lose their beginning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.base.errors import UserError
from headway.runs.generated import Sampling
from headway.runs.open_model import open_language_model
from headway.runs.sentences import LongText

CONTEXT, NEW = 96, 64  # NEW is what prompting lets a model write


@pytest.fixture(scope="module")
def folder(byte_gpt: Callable[[int], Path]) -> Path:
    """A toy GPT with a tokeniser of bytes."""
    return byte_gpt(CONTEXT)


def test_examples_that_fill_the_context_lose_no_evaluation(folder: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"question {n:2} is what", "answer": "x"} for n in range(40)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8")
    with pytest.warns(
        LongText, match=r"prompts have more tokens than the 48 .* of 96: the begin"
    ) as told:
        found = headway.prompt(
            folder, file=tmp_path / "rows.jsonl", shots=[0, 4], draws=1, device="cpu"
        )
    assert [point.shots for point in found.points] == [0, 4]
    assert len([each for each in told if each.category is LongText]) == 1
    asked = [[each for each in found.records if each["shots"] == shots] for shots in (0, 4)]
    assert len(asked[0]) == len(asked[1]) > 0


def test_what_is_cut_is_the_beginning_and_only_where_it_is_asked(folder: Path) -> None:
    model = open_language_model(folder, device="cpu")
    greedy = Sampling(temperature=0.0, max_new_tokens=8)
    text = "".join(chr(97 + n % 26) for n in range(200))
    with pytest.warns(LongText, match="prompt 2 has more tokens than the 88"):
        short, cut = model.generate(["ab", text], greedy, cut=True)
    (kept,) = model.generate([text[-88:]], greedy)
    assert (cut.ids, len(cut.ids)) == (kept.ids, 8)
    assert short.ids == model.generate(["ab"], greedy)[0].ids
    with pytest.raises(UserError, match="prompt 1 has 200 tokens; the model's context is 96"):
        model.generate([text], greedy)
