"""Labelled rows and answers: what is read, left out, counted and held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.data.answers import NO_ANSWER, NO_CONVERSATION, read_answers
from headway.data.examples import CONTRADICTORY, Examples
from headway.data.labelled import NO_CLASS, NO_LABEL, NO_NUMBER, NO_TEXT, classes_of, read_labelled
from headway.data.notes import DUPLICATE
from headway.settings.base import parse
from headway.settings.rows import AnswerSettings, LabelSettings


def labelled(table: dict[str, Any], **keys: Any) -> LabelSettings:
    part = {"text": "text", "label": "label", "bad": "drop", **table}
    return parse(LabelSettings, {"kind": "labels", "train": part, **keys}, where="test")


def written(folder: Path, rows: list[str], head: str = "text\tlabel") -> str:
    path = folder / "rows.tsv"
    path.write_text("".join(f"{row}\n" for row in [head, *rows]), encoding="utf-8-sig")
    return str(path)


def found(examples: Examples) -> dict[str, tuple[int, bool]]:
    return {each.kind: (each.count, each.dropped) for each in examples.findings}


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    rows = ["a\t1", "b\t0", " \t1", "c\t", "a\t1", "a\t0", "too\tmany\tfields", 'say "x\t0']
    examples = read_labelled(labelled({"file": written(tmp_path, rows)}), "train")
    assert examples is not None
    assert examples.rows == [("a", "1"), ("b", "0"), ("a", "1"), ("a", "0"), ('say "x', "0")]
    assert found(examples) == {
        NO_TEXT: (1, True),
        NO_LABEL: (1, True),
        "a wrong number of fields": (1, True),
        DUPLICATE: (1, False),
        CONTRADICTORY: (1, False),
    }
    assert classes_of(examples) == ["0", "1"]


def test_too_many_of_them_are_refused_unless_that_is_wanted(tmp_path: Path) -> None:
    file = written(tmp_path, ["a\t1", "b\tx", "c\t0"])
    with pytest.raises(UserError, match=r"1 of 3 rows cannot be used, more than 5%.*line 3"):
        read_labelled(labelled({"file": file, "bad": "few"}), "train", ["0", "1"])
    with pytest.raises(UserError, match="1 of 2 rows cannot be used, so far"):
        read_labelled(labelled({"file": file, "bad": "refuse"}), "train", ["0", "1"])
    kept = read_labelled(labelled({"file": file}), "train", ["0", "1"])
    assert kept is not None
    assert found(kept) == {NO_CLASS: (1, True)}


def test_classes_stand_in_order(tmp_path: Path) -> None:
    def classes(*labels: str) -> list[str]:
        file = written(tmp_path, [f"{n}\t{label}" for n, label in enumerate(labels)])
        examples = read_labelled(labelled({"file": file}), "train")
        assert examples is not None
        return classes_of(examples)

    assert classes("10", "9", "-1") == ["-1", "9", "10"]
    assert classes("b", "10", "9") == ["10", "9", "b"]
    with pytest.raises(UserError, match="all rows have the label 'x'"):
        classes("x", "x")


def test_a_regression_has_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows: list[Any] = [1, 2.5, "3.25", "high", "nan", True]
    lines = (json.dumps({"text": str(n), "label": label}) for n, label in enumerate(rows))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    examples = read_labelled(labelled({"file": str(path)}, regression=True), "train")
    assert examples is not None
    assert examples.column(-1) == ["1", "2.5", "3.25", "1"]
    assert found(examples) == {NO_NUMBER: (2, True)}


def test_what_is_held_out_shares_no_first_text(tmp_path: Path) -> None:
    rows = [f"text {n % 150}\tsecond {n}\t{n % 2}" for n in range(600)]
    file = written(tmp_path, rows, "text\tother\tlabel")
    settings = labelled({"file": file, "second": "other"}, held_out=0.2)
    parts = {name: read_labelled(settings, name) for name in ("train", "valid", "test")}  # type: ignore[arg-type]
    texts = {name: {row[0] for row in part.rows} for name, part in parts.items() if part}
    assert sum(len(part.rows) for part in parts.values() if part) == 600
    assert not texts["train"] & texts["valid"]
    assert not texts["valid"] & texts["test"]
    assert 15 < len(texts["valid"]) < 50
    assert read_labelled(labelled({"file": file}), "valid") is None


def test_nothing_may_be_left_of_what_is_held_out(tmp_path: Path) -> None:
    file = written(tmp_path, ["text 8\t1"])  # which the hash holds out
    with pytest.raises(UserError, match=r"rows\.tsv: there is no row.* lower data\.held_out"):
        read_labelled(labelled({"file": file}, held_out=0.49), "train")


def test_a_class_is_named_once() -> None:
    with pytest.raises(UserError, match="'pos' stands in it twice"):
        labelled({"file": "rows.tsv"}, labels=["pos", "neg", "pos"])


def test_digests_tell_data_apart(tmp_path: Path) -> None:
    def digest(*rows: str) -> str:
        examples = read_labelled(labelled({"file": written(tmp_path, list(rows))}), "train")
        assert examples is not None
        return examples.digest()

    assert digest("a\t1", "b\t0") == digest("a\t1", "b\t0")
    assert len({digest("a\t1", "b\t0"), digest("b\t0", "a\t1"), digest("ab\t1", "\t0")}) == 3


def test_prompts_and_conversations(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]
    rows = [
        {"prompt": "p", "answer": "a", "messages": talk},
        {"prompt": "p", "answer": " ", "messages": talk[:1]},
        {"prompt": "q", "answer": "b", "messages": [{"role": "assistant"}]},
        {"prompt": "q", "answer": "b", "messages": "no list"},
        {"prompt": "q", "answer": "c", "messages": talk},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def read(**columns: str) -> Examples:
        part = {"file": str(path), "bad": "drop", **columns}
        table = {"kind": "answers", "train": part}
        examples = read_answers(parse(AnswerSettings, table, where="test"), "train")
        assert examples is not None
        return examples

    pairs, talks = read(), read(messages="messages")
    assert pairs.rows == [("p", "a"), ("q", "b"), ("q", "b"), ("q", "c")]
    assert found(pairs) == {NO_ANSWER: (1, True), DUPLICATE: (1, False), CONTRADICTORY: (1, False)}
    assert [json.loads(text) for (text,) in talks.rows] == [talk, talk]
    assert found(talks) == {NO_CONVERSATION: (3, True), DUPLICATE: (1, False)}
