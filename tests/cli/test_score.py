"""headway score: a number a line, for the line of both files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli import score as verb

Cli = Callable[..., Any]
Run = Callable[[str], Path]


@pytest.mark.parametrize("kind", ["transformer", "attention", "plain"])
def test_scores_in_order(
    kind: str,
    trained: Run,
    cli: Cli,
    toy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb, "WINDOW", 7)
    files = toy / "test.fr", toy / "test.en"
    sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in files)
    details = tmp_path / "tokens.jsonl"
    said = cli("score", trained(kind), *files, "--tokens", details)
    assert (said.code, said.err) == (0, "")
    translator = headway.load(trained(kind), device="cpu")
    scores = [float(line) for line in said.out.splitlines()]
    assert scores == pytest.approx(translator.score(sources, targets), abs=2e-4)
    rows = [json.loads(line) for line in details.read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rows] == list(range(1, len(sources) + 1))
    for row, score in zip(rows, scores, strict=True):
        assert row["tokens"][-1] == "</s>"
        assert len(row["tokens"]) == len(row["log_probs"])
        assert sum(row["log_probs"]) == pytest.approx(score, abs=1e-4)
        assert row["log_prob"] == pytest.approx(score, abs=1e-4)


def test_a_long_text_is_named_by_its_line_in_the_file(
    trained: Run, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "WINDOW", 2)
    for name, last in (("fr", "chat " * 200), ("en", "cat " * 200)):
        (tmp_path / name).write_text("un\n" * 4 + last + "\n", encoding="utf-8")
    said = cli("score", trained("plain"), tmp_path / "fr", tmp_path / "en")
    told = [line for line in said.err.splitlines() if line.startswith("warning: ")]
    assert [line.split(" has ")[0] for line in told] == ["warning: line 5", "warning: target 5"]


def test_files_that_do_not_go_together(trained: Run, cli: Cli, toy: Path, tmp_path: Path) -> None:
    words = ("score", trained("plain"), toy / "test.fr")
    assert "the files have 40 and 20 lines" in cli(*words, toy / "valid.en").error
    (tmp_path / "less").write_text("a\n\nc\n", encoding="utf-8")
    assert "the files have 40 and 3 lines" in cli(*words, tmp_path / "less").error
    assert "look at line 2" in cli(*words, tmp_path / "less").error
    (tmp_path / "blank").write_text("a\n\n\n", encoding="utf-8")  # E2: nothing tells where
    (tmp_path / "one").write_text("a\n", encoding="utf-8")
    said = cli("score", trained("plain"), tmp_path / "one", tmp_path / "blank")
    assert "the files have 1 and 3 lines" in said.error
    assert "look at line 2" in said.error
    assert "there is no such file" in cli(*words, tmp_path / "none").error
    said = cli(*words, toy / "test.en", "--tokens", tmp_path)
    assert f"{tmp_path}: cannot write" in said.error
    assert said.out == b""


def test_no_file_is_read_and_overwritten(cli: Cli, tmp_path: Path) -> None:
    texts = [tmp_path / "text.fr", tmp_path / "text.en"]
    for text in texts:
        text.write_text("un\n", encoding="utf-8")
    for words in (
        ("--tokens", texts[0]),
        ("--attention", texts[1]),
        ("--tokens", tmp_path / "new", "--attention", tmp_path / "new"),
    ):
        assert "would be overwritten" in cli("score", tmp_path, *texts, *words).error
    for words in (
        ("tokenizer", "train", *texts, "--out"),
        ("tokenizer", "inspect", texts[0], texts[1], "--json"),
        ("evaluate", tmp_path, "--data", *texts, "--json"),
        ("data", "preview", texts[1], "--json"),
    ):
        error = cli(*words, texts[1]).error
        assert error.startswith(f"error: {texts[1]}: this file has another part in the command")
    sides = ("source", "target")
    words = [f"--set=data.train.{side}={text}" for side, text in zip(sides, texts, strict=True)]
    said = cli("data", "preview", "pairs", *words, "--json", texts[1])
    assert "this file has another part in the command" in said.error
    assert [text.read_text(encoding="utf-8") for text in texts] == ["un\n", "un\n"]
    assert not (tmp_path / "new").exists()


def test_no_file_of_a_run_is_overwritten(trained: Run, cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained("attention"), run)
    (tmp_path / "text").write_text("un\n", encoding="utf-8")
    before = {name: (run / name).read_bytes() for name in ("model.safetensors", "config.json")}
    for name in before:
        for words in (
            ("score", run, tmp_path / "text", tmp_path / "text", "--tokens"),
            ("translate", run, "--attention"),
        ):
            assert "this file has another part in the command" in cli(*words, run / name).error
    assert before == {name: (run / name).read_bytes() for name in before}
