"""What `headway data preview` shows of data that are not pairs of sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.settings.toml import dump_toml

Cli = Callable[..., Any]
Rows = list[list[dict[str, Any]]]

WORD = {"kind": "word", "size": 40}
SMALL = {"d_model": 16, "d_feed_forward": 16, "n_heads": 2, "n_layers": 1, "max_length": 16}
TEXTS = ["one two three four", "five six seven eight nine", "ten two five one"]
DOCUMENTS = {"kind": "documents", "length": 8, "train": {"own": {"file": "texts.jsonl"}}}
RECIPES: dict[str, dict[str, Any]] = {
    "language": {
        "data": DOCUMENTS,
        "tokenizer": WORD,
        "model": {"kind": "decoder", **SMALL},
        "train": {"steps": 2, "batch_tokens": 12},
    },
    "masked": {
        "data": DOCUMENTS,
        "tokenizer": WORD,
        "model": {"kind": "encoder", **SMALL},
        "train": {"steps": 2, "batch_tokens": 12},
        "masking": {"rate": 0.5, "next_sentence": False},
    },
    "labels": {
        "data": {"kind": "labels", "train": {"file": "rows.jsonl", "text": "q", "label": "a"}},
        "tokenizer": WORD,
        "model": {"kind": "encoder", **SMALL},
    },
    "answers": {
        "data": {"kind": "answers", "train": {"file": "rows.jsonl", "prompt": "q", "answer": "a"}},
        "tokenizer": WORD,
        "model": {"kind": "decoder", **SMALL},
    },
}


@pytest.fixture
def shown(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rows]:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text}) for text in TEXTS]
    Path("texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = [{"q": text, "a": "odd" if len(text.split()) % 2 else "even"} for text in TEXTS]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def show(kind: str, *words: Any) -> Rows:
        Path("own.toml").write_text(dump_toml(RECIPES[kind]), encoding="utf-8")
        said = cli("data", "preview", "own.toml", "--json", "found.json", *words)
        assert said.code == 0, said.err
        found = json.loads(Path("found.json").read_text(encoding="utf-8"))
        text = said.out.decode("utf-8")
        assert all(notice.split()[0] in text for notice in found["notices"])
        assert "the first rows" in text
        rows: Rows = found["rows"]
        for stretch in (stretch for row in rows for stretch in row):
            stretch["pieces"] = [piece.lstrip("▁") for piece in stretch["pieces"]]
        return rows

    return show


def test_of_packed_documents_all_but_their_beginnings_is_learnt(shown: Callable[..., Rows]) -> None:
    row, other = shown("language", "--lines", 2)
    assert [stretch["what"] for stretch in row][:2] == ["read", "learnt"]
    pieces = [piece for each in (row, other) for stretch in each for piece in stretch["pieces"]]
    ends = {piece for piece in pieces if piece.startswith("<")}
    words = [piece for piece in pieces if piece not in ends]
    assert set(words) <= {word for text in TEXTS for word in text.split()}
    learnt = [p for s in (*row, *other) if s["what"] == "learnt" for p in s["pieces"]]
    assert ends & set(learnt), "the end of a document is learnt"


def test_of_masked_texts_what_was_hidden_is_learnt(shown: Callable[..., Rows]) -> None:
    rows = shown("masked", "--lines", 3)
    assert rows
    for read, learnt in rows:
        assert learnt["what"] == "learnt"
        hidden = read["pieces"].count("<mask>")
        assert 0 <= hidden <= len(learnt["pieces"])
    assert sum(read["pieces"].count("<mask>") for read, _ in rows) > 0


def test_of_labels_the_label_is_learnt(shown: Callable[..., Rows]) -> None:
    rows = shown("labels", "--lines", 3)
    told = {" ".join(read["pieces"][1:-1]): label["pieces"] for read, label in rows}
    assert told == {TEXTS[0]: ["even"], TEXTS[1]: ["odd"], TEXTS[2]: ["even"]}


def test_of_answers_the_answer_and_its_end_are_learnt(shown: Callable[..., Rows]) -> None:
    rows = shown("answers", "--lines", 9)
    assert len(rows) == len(TEXTS)
    for read, learnt in rows:
        assert " ".join(read["pieces"]).endswith(tuple(TEXTS))
        assert learnt["pieces"][:-1] in (["odd"], ["even"])
        assert learnt["pieces"][-1].startswith("<")


def test_another_part_is_refused_before_anything_is_read(cli: Cli) -> None:
    error = cli("data", "preview", "lm/stdlib", "--part", "valid").error
    assert "only the training part" in error
    assert "--part valid" in error
