"""--attention: a line of links or of JSON for each line of the output."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.cli import translate as verb

Cli = Callable[..., Any]
Run = Callable[[str], Path]
DATA = b"un petit chat\n\nvert chien\n"


def test_links_between_words(trained: Run, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "new" / "links.txt"
    said = cli("translate", trained("attention"), "--attention", path, stdin=DATA)
    assert said.out == b"one small cat\n\ngreen dog\n"
    assert path.read_text(encoding="utf-8") == "0-0 1-1 2-2\n\n0-0 1-1\n"


@pytest.mark.parametrize("kind", ["attention", "transformer"])
def test_weights_as_json(
    kind: str, trained: Run, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "WINDOW", 2)
    path = tmp_path / "a.jsonl"
    said = cli("translate", trained(kind), "--attention", path, stdin=DATA)
    texts = said.out.decode().splitlines()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert rows[1] == {"line": 2, "source": [], "target": [], "weights": []}
    translator = headway.load(trained(kind), device="cpu")
    for place in (0, 2):
        row, source = rows[place], DATA.decode().splitlines()[place]
        own = translator.attention(source, texts[place])
        assert (row["source"], row["target"]) == (own.source, own.target)
        np.testing.assert_allclose(row["weights"], own.weights, atol=1e-4)
        assert all(len(str(weight)) <= 6 for line in row["weights"] for weight in line)
        assert row["links"] == [list(link) for link in own.links()]
        assert (row["layer"], row["heads"]) == (own.layer, list(own.heads))


def test_each_of_n_best_has_its_line(trained: Run, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    said = cli("translate", trained("attention"), "--nbest", 2, "--attention", path, stdin=DATA)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rows] == [1, 1, 2, 3, 3]
    assert len(rows) == said.out.count(b"\n")
    assert rows[0]["target"] != rows[1]["target"]


def test_links_of_given_translations(trained: Run, cli: Cli, tmp_path: Path) -> None:
    for name, text in (("fr", "chat vert\n\nchien\n"), ("en", "cat green\none\ndog\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = ("score", trained("attention"), tmp_path / "fr", tmp_path / "en")
    said = cli(*words, "--attention", tmp_path / "links")
    assert said.code == 0
    assert (tmp_path / "links").read_text(encoding="utf-8") == "0-0 1-1\n\n0-0\n"


def test_mistakes(trained: Run, cli: Cli, tmp_path: Path) -> None:
    def error(kind: str, path: Path) -> str:
        said = cli("translate", trained(kind), "--attention", path, stdin=DATA)
        assert said.out == b""
        message: str = said.error
        return message

    assert "this model has no attention" in error("plain", tmp_path / "links")
    assert "let it end in .jsonl" in error("attention", tmp_path / "a.json")
    assert f"{tmp_path}: cannot write" in error("attention", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_not_overwritten(cli: Cli, tmp_path: Path) -> None:
    text = tmp_path / "text.fr"
    text.write_bytes(DATA)
    before = os.dup(0)
    with text.open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        said = cli("translate", tmp_path, "--attention", text)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert f"{text}: this file has another part in the command" in said.error
    assert text.read_bytes() == DATA
