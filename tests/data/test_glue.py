"""GLUE's files: heads, a byte-order mark, stray quotes, rows that are broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.data.glue import glue_file, read_glue

DATA = os.environ.get("HEADWAY_DATA")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_file_without_a_head(tmp_path: Path) -> None:
    path = write(tmp_path, "CoLA/dev.tsv", "gj04\t1\t\tShe left.\r\ncj99\t0\t*\tLeft she.\r\n")
    rows = read_glue("cola", glue_file("cola", tmp_path, "valid"))
    assert path == glue_file("cola", tmp_path, "valid") == glue_file("cola", path.parent, "valid")
    assert [(row.line, row.cells["sentence"], row.label) for row in rows] == [
        (1, "She left.", 1),
        (2, "Left she.", 0),
    ]


def test_a_mark_stray_quotes_and_broken_rows(tmp_path: Path) -> None:
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    path = write(tmp_path, "MRPC/train.tsv", head + '1\t2\t3\t" The a .\tThe "b .\n0\t1\t2\n')
    (row,) = read_glue("mrpc", path)
    assert (row.line, row.label) == (2, 1)
    assert row.cells["#1 String"] == '" The a .'
    assert row.cells["#2 String"] == 'The "b .'


def test_labels_in_words(tmp_path: Path) -> None:
    text = "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n1\tA.\tA.\tentailment\n"
    path = write(tmp_path, "dev.tsv", text)
    assert [row.label for row in read_glue("rte", path)] == [1, 0]
    assert glue_file("mnli", tmp_path, "valid").name == "dev_matched.tsv"


def test_what_is_no_file_of_the_task_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "dev.tsv", "sentence\tlabel\ngood\t1\nbad\t7\n")
    with pytest.raises(UserError, match=r"dev.tsv:3: '7' is no label of sst2; known: 0, 1"):
        read_glue("sst2", path)
    with pytest.raises(UserError, match="unknown column 'Quality'"):
        read_glue("mrpc", path)
    with pytest.raises(UserError, match="no row has the 4 columns of cola"):
        read_glue("cola", path)
    with pytest.raises(UserError, match=r"unknown task of GLUE 'sst3'.*did you mean 'sst2'"):
        glue_file("sst3", tmp_path, "train")


@pytest.mark.skipif(DATA is None, reason="HEADWAY_DATA names no folder of real data")
@pytest.mark.parametrize("part", ["train", "valid"])
@pytest.mark.parametrize(("task", "head"), [("cola", 0), ("sst2", 1), ("mrpc", 1), ("rte", 1)])
def test_every_row_is_read(task: str, head: int, part: str) -> None:
    path = glue_file(task, Path(DATA or "") / "glue", part)
    rows = read_glue(task, path)
    lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    assert len(rows) == len(lines) - head > 250
    assert {row.label for row in rows} == {0, 1}
