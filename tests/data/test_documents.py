"""Documents from files, tables and the interpreter: read alike each pass, cleaned, counted."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.data.documents import DocumentStream, document_streams
from headway.settings.documents import DocumentSettings


def streams(part: str = "train", **table: Any) -> dict[str, DocumentStream]:
    settings = DocumentSettings.model_validate({"kind": "documents", **table})
    return document_streams(settings, part)  # type: ignore[arg-type]


def texts(source: dict[str, Any], **table: Any) -> list[str]:
    return list(streams(train={"it": source}, **table)["it"].texts())


def test_a_document_is_a_file_a_line_or_a_block(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\r\nthree\n")
    (tmp_path / "b.txt").write_bytes(b"four\n")
    with gzip.open(tmp_path / "c.txt.gz", "wb") as file:
        file.write(b"five")
    files = {"files": str(tmp_path / "*.txt*")}
    assert texts(files) == ["one\ntwo\n\nthree\n", "four\n", "five\n"]
    assert texts({**files, "document": "line"}) == ["one\n", "two\n", "three\n", "four\n", "five\n"]
    assert texts({**files, "document": "block"}) == ["one\ntwo\n", "three\n", "four\n", "five\n"]
    assert texts({**files, "lines": 2}) == ["one\ntwo\n\nthree\n", "four\n"]


def test_folders_and_empty_files_among_others_are_no_documents(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").write_bytes(b"one\n")
    (tmp_path / "__init__.py").touch()
    (tmp_path / "mark.py").write_bytes(b"\xef\xbb\xbf")
    stream = streams(train={"it": {"files": str(tmp_path / "**")}})["it"]
    assert list(stream.texts()) == ["one\n"]
    assert {each.kind: each.count for each in stream.notes.dropped()} == {"no text": 2}
    assert texts({"files": str(tmp_path / "**"), "document": "block"}) == ["one\n"]
    for alone, told in (("inner", "Is a directory"), ("__init__.py", "no document with text")):
        with pytest.raises(UserError, match=told):
            texts({"files": str(tmp_path / alone)})


def test_tables_have_a_document_a_row(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"text": "one\\ntwo"}\n{"text": "three"}\n', encoding="utf-8")
    assert texts({"file": str(path)}) == ["one\ntwo", "three"]
    path = tmp_path / "some.csv"
    path.write_text('id,body\n1,"a, b"\n2,c\n', encoding="utf-8")
    assert texts({"file": str(path), "text": "body"}) == ["a, b", "c"]


def test_what_was_there_before_is_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\n \none\n", encoding="utf-8")
    source = {"files": str(path), "document": "line"}
    stream = streams(train={"it": source})["it"]
    assert list(stream.texts()) == ["one\n", "two\n"]
    assert {each.kind: each.count for each in stream.notes.dropped()} == {
        "no text": 1,
        "seen before": 1,
    }
    assert texts(source, duplicates="keep") == ["one\n", "two\n", "one\n"]


def test_held_out_documents_are_in_one_part_each(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"document {n}\n" for n in range(400)), encoding="utf-8")
    table = {"train": {"it": {"files": str(path), "document": "line"}}, "held_out": 0.1}
    parts = {name: set(streams(name, **table)["it"].texts()) for name in ("train", "valid", "test")}
    assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == 400
    assert all(20 <= len(parts[name]) <= 60 for name in ("valid", "test"))


def test_of_a_small_source_nothing_may_be_held_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    table = {"train": {"it": {"files": str(path), "document": "line"}}, "held_out": 0.001}
    assert list(streams("valid", **table)["it"].texts()) == []
    assert list(streams("train", **table)["it"].texts()) == ["one\n", "two\n"]


def test_nothing_may_be_left_of_what_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    table = {"train": {"it": {"files": str(tmp_path / "a.txt")}}, "held_out": 0.49}
    with pytest.raises(UserError, match=r"a\.txt: all 1 documents .* lower data\.held_out"):
        list(streams(**table)["it"].texts())


@pytest.mark.parametrize("part", ["valid", "test"])
def test_documents_that_a_model_is_judged_on_as_well_are_counted(part: str, tmp_path: Path) -> None:
    for name, text in (("a", "one\ntwo\ntwo\n"), ("b", "three\n"), ("c", "two\nthree\nfour\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    a, b, c = ({"files": str(tmp_path / name), "document": "line"} for name in "abc")
    found = streams(train={"a": a, "b": b}, **{part: {"c": c}})
    for _ in range(2):
        assert [list(each.texts()) for each in found.values()] == [["one\n", "two\n"], ["three\n"]]
        told = [[(each.kind, each.count) for each in one.notes.kept()] for one in found.values()]
        assert told == [[("in valid or test too", 1)]] * 2
    assert not streams(part, train={"a": a, "b": b}, **{part: {"c": c}})["c"].notes.kept()


def test_data_that_change_between_passes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n", encoding="utf-8")
    stream = streams(train={"it": {"files": str(path)}})["it"]
    list(stream.texts())
    first = stream.digest()
    list(stream.texts())
    assert stream.digest() == first
    path.write_text("two\n", encoding="utf-8")
    with pytest.raises(UserError, match="changed while"):
        list(stream.texts())


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\n\xff\n" + b"more\n" * 30)
    source = {"files": str(path), "document": "line"}
    with pytest.raises(UserError, match="not UTF-8"):
        texts(source)
    assert texts({**source, "errors": "skip"}) == ["one\n", "more\n"]
    with pytest.raises(UserError, match=r"1 of \d+ documents cannot be used"):
        texts({**source, "errors": "skip", "bad": "refuse"})


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        texts({"files": str(tmp_path / "*.txt")})
    (tmp_path / "a.txt").write_text(" \n", encoding="utf-8")
    with pytest.raises(UserError, match="no document with text"):
        texts({"files": str(tmp_path / "*.txt")})


def test_the_interpreter_has_text() -> None:
    code = streams(train={"it": {"corpus": "builtin:stdlib", "lines": 40}})["it"]
    found = list(code.texts())
    assert len(found) >= 38  # a few are empty
    assert all("\x00" not in text for text in found)
    assert list(code.texts()) == found
    topics = texts({"corpus": "builtin:pydoc"})
    assert any('The "with" statement' in text for text in topics)


def test_a_document_of_two_sources_is_one_document(tmp_path: Path) -> None:
    sources = {}
    for name, text in {"a": "one\ntwo\n", "b": "two\nthree\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        sources[name] = {"files": str(tmp_path / name), "document": "line"}
    found = streams(train=sources)
    for _ in range(2):  # each pass over all of them finds the same
        assert [list(each.texts()) for each in found.values()] == [["one\n", "two\n"], ["three\n"]]
    assert [each.kind for each in found["b"].notes.dropped()] == ["seen before"]
