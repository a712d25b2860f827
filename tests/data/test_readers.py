"""Every reader: the same pairs from every kind of file, and the same care with what is odd."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError

Read = Callable[..., Any]
Write = Callable[..., dict[str, Any]]
LINES = ["files", "files.gz", "tsv", "tsv.gz", "csv", "csv.gz", "jsonl", "jsonl.gz"]
KINDS = [*LINES, "parquet"]
HEAD = {"tsv": 1, "csv": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_pairs(kind: str, write: Write, read: Read) -> None:
    pairs = [("un « chat »", "a 'cat'"), ("été 😀", 'say "hi", you'), ("  x ", "y; z")]
    found = read(**write(kind, pairs))
    assert found.pairs == pairs
    assert found.notices == ()
    assert read(**write(kind, pairs), lines=2).pairs == pairs[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_lf_ends_a_row(kind: str, write: Write, read: Read) -> None:
    """E1: U+2028, NEL, form feed, NUL and a lone CR stay in the text, and are told."""
    pairs = [("a", "A"), ("a\u2028b\x85c\x0c", "B\x00"), ("d\re", "D"), ("f", "F")]
    found = read(**write(kind, pairs))
    assert found.pairs == pairs
    first = 1 + HEAD.get(kind.removesuffix(".gz"), 0)
    source, target = (note for note in found.notices if "odd separators" in note)
    assert f": 2 lines hold odd separators or NUL (lines {first + 1}, {first + 2})" in source
    assert f": 1 lines hold odd separators or NUL (line {first + 1})" in target


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_with_an_empty_side_are_left_out(kind: str, write: Write, read: Read) -> None:
    """E3: a, nothing, blanks, b."""
    pairs = [("a", "A"), ("", "x"), ("  ", "x"), ("x", "\u00a0"), ("", ""), ("b", "B")]
    found = read(**write(kind, pairs))
    assert found.pairs == [("a", "A"), ("b", "B")]
    assert found.notices == ("4 pairs with an empty side left out",)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_an_empty_line_is_an_empty_pair_and_not_a_bad_row(
    kind: str, write: Write, read: Read
) -> None:
    """E3: the blank lines at the end that editors and scripts leave."""
    table = write(kind, [("a", "A"), ("b", "B")])
    path = Path(table["file"])
    path.write_bytes(path.read_bytes() + b"\n\r\n\n")
    found = read(**table, bad="refuse")
    assert found.pairs == [("a", "A"), ("b", "B")]
    assert found.counts == {"an empty side": 3}


@pytest.mark.parametrize("quoting", ["none", "csv"])
def test_an_empty_line_before_all_others_is_one_too(
    quoting: str, read: Read, tmp_path: Path
) -> None:
    """E3: it does not say how many columns there are, nor what they are called."""
    path = tmp_path / "x.tsv"
    for head, columns in (("", (0, 1)), ("fr\ten\n", ("fr", "en"))):
        path.write_text(f"\n{head}a\tA\n", encoding="utf-8")
        part = {"file": str(path), "quoting": quoting}
        found = read(**part, source=columns[0], target=columns[1])
        assert found.pairs == [("a", "A")]
        assert found.lines == {"an empty side": [1]}


@pytest.mark.parametrize("kind", LINES)
def test_a_mark_at_the_start_and_crlf_are_no_text(
    kind: str, write: Write, read: Read, tmp_path: Path
) -> None:
    """E4: the first column keeps its name, the last has no CR; a mark elsewhere stays."""
    pairs = [("a", "A"), ("\ufeffb", "B\ufeff")]
    table = write(kind, pairs, change=lambda data: b"\xef\xbb\xbf" + crlf(data))
    assert read(**table).pairs == pairs


def crlf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


@pytest.mark.parametrize("kind", LINES)
def test_a_bad_byte_is_refused_replaced_or_skipped(kind: str, write: Write, read: Read) -> None:
    """E4: byte 0x92, Windows' apostrophe, in line 3 of 41."""
    pairs = [(f"mot {n}", f"word {n}") for n in range(41)]
    table = write(kind, pairs, change=lambda data: data.replace(b"mot 2", b"m\x92t 2", 1))
    line = 3 + HEAD.get(kind.removesuffix(".gz"), 0)
    with pytest.raises(UserError, match="not UTF-8: byte 0x92 at position ") as caught:
        read(**table)
    file = table.get("file", table["source"])
    assert caught.value.where == f"{file}:{line}"
    assert "convert the file to UTF-8, or set errors = 'replace' or 'skip'" in str(caught.value)
    replaced = read(**table, errors="replace")
    assert replaced.pairs == [*pairs[:2], ("m\ufffdt 2", "word 2"), *pairs[3:]]
    assert replaced.lines == {"letters that a wrong encoding leaves (Ã©, U+FFFD)": [line]}
    skipped = read(**table, errors="skip")
    assert skipped.pairs == pairs[:2] + pairs[3:]
    assert skipped.lines == {"bytes that are not UTF-8": [line]}


def test_another_encoding_is_recognised(tmp_path: Path, read: Read) -> None:
    """E4: a UTF-16 file, and text that went through the wrong encoding before."""
    path = tmp_path / "x.tsv"
    path.write_bytes("é\tA\n".encode("utf-16"))
    with pytest.raises(UserError, match="convert the file to UTF-8: it is UTF-16"):
        read(file=str(path), source=0, target=1)
    path.write_bytes(gzip.compress(b"a\tA\n"))
    with pytest.raises(UserError, match="it is compressed by gzip: unpack it, or let"):
        read(file=str(path), source=0, target=1)
    wrong = "été à l’œil".encode().decode("cp1252", "replace")
    path.write_text(f"{wrong}\tA\nâge ÂGE Ã A\tB\nNÃO\tC\n", encoding="utf-8")
    (notice,) = read(file=str(path), source=0, target=1).notices
    assert notice.startswith("1 texts hold letters that a wrong encoding leaves")
    assert "(line 1)" in notice


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_file_and_one_without_a_pair_are_told(kind: str, write: Write, read: Read) -> None:
    """E7."""
    with pytest.raises(UserError, match="no pair has text on both sides"):
        read(**write(kind, [("", "x"), ("y", " ")]))
    if kind != "parquet":
        table = write(kind, [], change=lambda _: b"")
        with pytest.raises(UserError, match="the file is empty"):
            read(**table)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_not_there_or_damaged_is_named(kind: str, write: Write, read: Read) -> None:
    table = write(kind, [("a", "A")] * 50)
    path = Path(table.get("file", table["source"]))
    if kind.endswith(("gz", "parquet")):
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(UserError, match="cannot be read: ") as caught:
            read(**table)
        assert caught.value.where == str(path)
    path.unlink()
    with pytest.raises(UserError, match="there is no such file") as caught:
        read(**table)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("kind", ["tsv", "csv", "parquet"])
def test_a_column_that_is_not_there_names_the_nearest(kind: str, write: Write, read: Read) -> None:
    table = write(kind, [("a", "A")])
    with pytest.raises(UserError, match=r"data.train.source: unknown column 'fra'; did you mean"):
        read(**table | {"source": "fra"})
    with pytest.raises(UserError, match=r"data.train.target: there is no column 7"):
        read(**table | {"source": 0, "target": 7})


def test_a_parquet_file_with_bytes_that_are_not_utf8_is_told(tmp_path: Path, read: Read) -> None:
    arrow = pytest.importorskip("pyarrow")
    texts = arrow.array([b"a", b"\xff"], arrow.binary())
    column = arrow.Array.from_buffers(arrow.string(), 2, texts.buffers())
    path = tmp_path / "x.parquet"
    table = arrow.table({"fr": column, "en": ["A", "B"]})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    with pytest.raises(UserError, match="cannot be read: 'utf-8' codec can't decode") as caught:
        read(file=str(path), source="fr", target="en")
    assert caught.value.where == str(path)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_line_breaks_in_a_value_become_spaces(kind: str, write: Write, read: Read) -> None:
    found = read(**write(kind, [("a\nb", "A\r\nB"), ("c", "C")]))
    assert found.pairs == [("a b", "A B"), ("c", "C")]
    assert found.counts == {"line breaks inside, made spaces": 1}


def test_a_variable_in_a_path_is_read_and_stays_in_the_recipe(
    write: Write, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
    write("tsv", [("a", "A")])
    write("files", [("b", "B")])
    table = {"file": "${SOME_FOLDER}/pairs.tsv", "source": "fr", "target": "en"}
    assert read(**table).pairs == [("a", "A")]
    files = {side: f"${{SOME_FOLDER}}/{side}" for side in ("source", "target")}
    assert read(**files).pairs == [("b", "B")]
    monkeypatch.delenv("SOME_FOLDER")
    with pytest.raises(UserError, match=r"'SOME_FOLDER' in .* is not set") as caught:
        read(**table)
    assert caught.value.where == "data.train.file"
    with pytest.raises(UserError) as caught:
        read(**files)
    assert caught.value.where == "data.train.source"
