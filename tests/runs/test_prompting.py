"""Prompting end to end: a model that knows the answers, one that guesses, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.evaluate.likelihood import Likelihood
from headway.runs.generated import Generated
from headway.runs.language_model import LanguageModel

HEAD = "sentence\tlabel\n"


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SST-2 of 30 sentences to ask and 40 to learn from; the good ones have a "+"."""
    folder = tmp_path_factory.mktemp("glue")
    (folder / "SST-2").mkdir()
    for name, n in (("dev", 30), ("train", 40)):
        rows = (
            f"{name} {row} {'+' if row % 3 else '-'} \t{int(row % 3 > 0)}\n" for row in range(n)
        )
        (folder / "SST-2" / f"{name}.tsv").write_text(HEAD + "".join(rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(byte_gpt: Callable[[int], Path]) -> Path:
    """A toy GPT that has learned nothing, with a tokeniser of bytes."""
    return byte_gpt(256)


class Knowing(LanguageModel):
    """Knows that "+" is positive, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def log_likelihoods(self, requests: Sequence[tuple[str, str]], **_: Any) -> list[Likelihood]:
        self.asked += [context for context, _ in requests]
        return [
            Likelihood(1.0 if (answer == " positive") == ("+" in context[-14:]) else 2.0, 1, 0)
            for context, answer in requests
        ]

    def generate(self, prompts: Sequence[str], *_: Any, **__: Any) -> list[Generated]:
        self.asked += prompts
        return [Generated(" positive", [], "stop", 0.0) for _ in prompts]


def test_who_knows_gets_all_right(glue: Path) -> None:
    found = headway.prompt(
        Knowing(), "glue/sst2", glue=glue, shots=[4, 0], draws=3, lines=20, template="{text}\n:"
    )
    assert [point.shots for point in found.points] == [0, 4]
    for point in found.points:
        assert (point.accuracy.percent, point.accuracy.normalised) == (100.0, 100.0)
        assert point.accuracy.chance == 50.0
    assert [len(point.draws) for point in found.points] == [1, 3]
    assert len({tuple(lines) for lines in found.points[1].examples}) == 3
    assert len(found.records) == 20 * (1 + 3)
    assert {record["draw"] for record in found.records} == {1, 2, 3}
    assert "normalised = (accuracy - chance) / (1 - chance)" in repr(found.table())


def test_examples_come_from_the_training_part_balanced(glue: Path) -> None:
    model = Knowing()
    found = headway.prompt(model, "glue/sst2", glue=glue, shots=[4], draws=1)
    before, question = model.asked[0].rsplit("\n\n", 1)
    assert question.startswith("Review: dev 0 -\nSentiment:")
    examples = before.split("\n\n")
    assert all(example.startswith("Review: train") for example in examples)
    assert sorted(example.rsplit(" ", 1)[1] for example in examples) == [
        *["negative"] * 2,
        *["positive"] * 2,
    ]
    lines = [int(example.split()[2]) + 2 for example in examples]
    assert lines == found.points[0].examples[0]
    assert found.settings["commonest_answer"] == pytest.approx(100 * 20 / 30)


def test_the_result_has_all_that_it_depends_on(glue: Path) -> None:
    found = headway.prompt(
        Knowing(), "glue/sst2", glue=glue, shots=[0, 1], draws=2, seed=7, lines=9
    )
    table = json.loads(json.dumps(found.to_table()))
    assert {key: table[key] for key in ("task", "by", "shots", "draws", "seed", "lines")} == {
        "task": "glue/sst2",
        "by": "likelihood",
        "shots": [0, 1],
        "draws": 2,
        "seed": 7,
        "lines": 9,
    }
    assert len(table["files"]) == 2
    assert all(len(digest) == 64 for digest in table["files"].values())
    assert table["template"] == "Review: {text}\nSentiment:"
    assert table["points"][0]["accuracy"]["normalised"] == 100.0


def test_by_generation_the_line_has_to_be_the_answer(glue: Path) -> None:
    found = headway.prompt(Knowing(), "glue/sst2", glue=glue, shots=[0], by="generation")
    (point,) = found.points
    assert point.accuracy.percent == pytest.approx(100 * 20 / 30)
    assert (point.accuracy.chance, point.by_bytes) == (0.0, None)


def test_files_as_they_circulate_are_asked(tmp_path: Path) -> None:
    """A byte-order mark, stray quotes, CRLF; a row that is broken is left out."""
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    rows = [f'{n % 2}\t1\t2\t" The {n} .\tThe "{n} .\r\n' for n in range(40)]
    (tmp_path / "MRPC").mkdir()
    text = head + "".join([*rows[:7], "0\t1\t2\r\n", *rows[7:]])
    (tmp_path / "MRPC" / "dev.tsv").write_bytes(text.encode("utf-8"))
    model = Knowing()
    found = headway.prompt(model, "glue/mrpc", glue=tmp_path, shots=[0])
    assert found.settings["questions"] == 40
    assert model.asked[0].startswith('First: " The 0 .\nSecond: The "0 .\nQuestion:')
    lines = [record["line"] for record in found.records]
    assert (lines[6], lines[7]) == (8, 10)


def rows_file(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_examples_of_a_file_are_not_asked(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n} +", "choices": [f"x{n}", "positive"], "answer": 1} for n in range(50)]
    file = rows_file(tmp_path / "rows.jsonl", rows)
    model = Knowing()
    found = headway.prompt(model, file=file, shots=[0, 4], draws=3)
    assert found.points[0].accuracy.percent == 100.0
    asked = {record["line"] for record in found.records}
    taken = {line for lines in found.points[1].examples for line in lines}
    assert len(asked) == 50 - 16
    assert not asked & taken
    assert not found.settings["balanced"]  # each row has choices of its own


def test_rows_without_choices_are_written(tmp_path: Path) -> None:
    rows = [{"question": "Q", "answer": answer} for answer in ("positive", "negative", "positive ")]
    file = rows_file(tmp_path / "rows.jsonl", rows)
    model = Knowing()
    found = headway.prompt(model, file=file, shots=[0], template="{question}? Answer:")
    assert [record["right"] for record in found.records] == [True, False, True]
    assert model.asked == ["Q? Answer:"] * 3
    with pytest.raises(UserError, match="not all rows have choices"):
        headway.prompt(model, file=file, shots=[0], template="{question}", by="likelihood")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[1]", "not a JSON object; write one such as"),
        ('{"prompt": "a", "choices": ["b"], "answer": 0}', "'choices' are two texts or more"),
        ('{"prompt": "a", "choices": ["b", ""], "answer": 0}', "'choices' are two texts or more"),
        ('{"prompt": "a", "choices": ["b", "c"], "answer": 2}', "no 'answer' that can be right"),
        ('{"prompt": "a", "choices": ["b", "c"], "answer": "d"}', "no 'answer' that can be right"),
        ('{"prompt": "a", "choices": ["b", "c"], "answer": true}', "no 'answer' that can be right"),
        ('{"prompt": "a"}', "no 'answer' that can be right"),
        ('{"answer": "a"}', "no text 'prompt'"),
        ('{"prompt": "a", "choices": ["b", "b"], "answer": 0}', "equal 'choices'"),
        (r'{"prompt": "a\ud800", "answer": "b"}', "not valid Unicode: half of a surrogate pair"),
        (
            r'{"prompt": "a", "choices": ["b", "\udc00"], "answer": 0}',
            "not valid Unicode: half of a surrogate pair",
        ),
    ],
)
def test_a_row_that_is_none_is_told_with_its_line(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"prompt": "a", "answer": "b"}}\n\n{line}\n', encoding="utf-8")
    with pytest.raises(UserError, match=rf"rows.jsonl:3: {told}"):
        headway.prompt(Knowing(), file=file, shots=[0])


def test_choices_need_not_be_everywhere_where_all_is_written(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "answer": "b"}, {"prompt": "a", "choices": ["b", "c"], "answer": 0}]
    file = rows_file(tmp_path / "rows.jsonl", rows)
    found = headway.prompt(Knowing(), file=file, shots=[0], by="generation")
    assert len(found.records) == 2
    with pytest.raises(UserError, match=r"rows\.jsonl:1: not all rows have choices"):
        headway.prompt(Knowing(), file=file, shots=[0])


def test_a_template_is_no_longer_left_out_for_being_empty(
    tmp_path: Path, glue: Path, cli: Callable[..., Any]
) -> None:
    file = rows_file(tmp_path / "rows.jsonl", [{"prompt": "a", "answer": "b"}])
    for words in (["--file", file], ["--task", "glue/sst2", "--glue", glue]):
        said = cli("prompt", "a-model", *words, "--shots", "0", "--template", "")
        assert "the template has no field" in said.error


def test_a_task_without_its_files_names_the_option(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    said = cli("prompt", "a-model", "--task", "glue/sst2", "--shots", "0")
    assert "'HEADWAY_DATA'" in said.error
    assert "or name the folder with --glue DIR" in said.error


def test_the_command_writes_table_log_and_curve(
    folder: Path, glue: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    out = [tmp_path / name for name in ("a.json", "a.jsonl", "a.svg")]
    words = ["prompt", folder, "--task", "glue/sst2", "--glue", glue, "--shots", "0,1"]
    words += ["--draws", 2, "--template", r"{text}\n="]
    words += ["--json", out[0], "--log", out[1], "--svg", out[2]]
    said = cli(*words, "--lines", 8, "--device", "cpu")
    assert said.code == 0, said
    assert b"glue/sst2: 8 questions, by likelihood" in said.out
    found = json.loads(out[0].read_text("utf-8"))
    assert found["template"] == "{text}\n="
    assert [point["shots"] for point in found["points"]] == [0, 1]
    records = [json.loads(line) for line in out[1].read_text("utf-8").splitlines()]
    assert len(records) == 8 * 3
    for record in records:
        likeliest = record["choices"][record["log_probs"].index(max(record["log_probs"]))]
        assert record["right"] == (likeliest == record["answer"])
    assert "<svg" in out[2].read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "write --task NAME, perhaps with --glue DIR, or --file FILE"),
        (["--file", "a", "--task", "glue/sst2"], "--file FILE"),
        (["--task", "glue/stsb"], "asks for numbers, of which none can be chosen"),
        (["--file", "a.jsonl", "--shots", "0,-1"], "--shots: '0,-1' is no list of numbers"),
        (["--file", "a.jsonl", "--svg", "a.gif"], "PNG or SVG"),
        (["--file", "a.jsonl", "--log", "a.jsonl"], "would be overwritten"),
        (["--file", "a.jsonl", "--shots", "2"], "2 examples cannot be drawn from 1 rows"),
    ],
)
def test_mistakes_of_the_command(
    folder: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    words: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows_file(tmp_path / "a.jsonl", [{"prompt": "a", "answer": "b"}] * 2)
    assert told in cli("prompt", folder, *words).error


def test_a_translator_is_not_prompted(
    trained: Callable[[str], Path], glue: Path, cli: Callable[..., Any]
) -> None:
    said = cli("prompt", trained("plain"), "--task", "glue/sst2", "--glue", glue, "--shots", "0")
    assert "does not continue text" in said.error
    said = cli("evaluate", trained("plain"), "--tasks", "hellaswag")
    assert "does not continue text" in said.error
    said = cli("evaluate", trained("plain"), "--tasks", "hellaswag", "--beam", 2)
    assert "--beam is for a translator" in said.error
    said = cli("evaluate", trained("plain"), "--shots", 2)
    assert "--shots goes with --tasks" in said.error
