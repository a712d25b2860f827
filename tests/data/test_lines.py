"""Lines end at LF and nowhere else, so that line i of one file belongs to line i of the other."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.data.lines import ODD, read_lines, split_lines


def written(folder: Path, data: bytes, name: str = "text.fr") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),  # no LF at the end of the file
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\r", ["a\r", "b"]),  # one CR before the LF, or at the end of the file
        (b"\n", [""]),
        (b"\n\na\n\n", ["", "", "a", ""]),
        (b" a \t\n", [" a \t"]),
        ("é 😀\n".encode(), ["é 😀"]),
    ],
)
def test_lines_end_at_lf(data: bytes, lines: list[str]) -> None:
    assert split_lines(data, where="here") == lines


def test_nothing_else_ends_a_line() -> None:
    """E1: str.splitlines finds 4 lines here, text mode 3; there are 2."""
    text = "a\u2028b\x85c\nd\re\x0bf\x0cg\x1ch\x00i\n"
    assert split_lines(text.encode(), where="here") == text.split("\n")[:2]


def test_every_character_that_python_splits_at_is_odd() -> None:
    """E1: what str.splitlines would cut at is noticed, and NUL."""
    characters = map(chr, range(sys.maxunicode + 1))
    separators = [c for c in characters if len(f"a{c}b".splitlines()) == 2 and c != "\n"]
    assert len(separators) >= 9
    for character in [*separators, "\0"]:
        assert ODD.search(f"a{character}b"), repr(character)
    assert not ODD.search("plain tab\t no-break\u00a0space é \ufeff\n")


def test_a_mark_is_dropped_at_the_start_only() -> None:
    """E4."""
    mark = "\ufeff"
    found = split_lines(f"{mark}hello\n{mark}x{mark}\n".encode(), where="here")
    assert found == ["hello", f"{mark}x{mark}"]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"one\ntwo\nn\xc3\xa9 d\x92accord\n", ":3: not UTF-8: byte 0x92 at position 6"),
        (b"caf\xe9\n", ":1: not UTF-8: byte 0xe9 at position 4"),
        (b"one\n\xf0\x9f\x98", ":2: not UTF-8: byte 0xf0 at position 1"),  # cut within a character
        (b"\xff\xfea\x00\n", ":1: not UTF-8: byte 0xff at position 1"),  # UTF-16
        (b"ok\n\xed\xa0\x80\n", ":2: not UTF-8: byte 0xed at position 1"),  # a surrogate
    ],
)
def test_a_bad_byte_is_named_with_file_and_line(tmp_path: Path, data: bytes, place: str) -> None:
    """E4."""
    path = written(tmp_path, data)
    with pytest.raises(UserError) as caught:
        read_lines(path)
    assert str(caught.value).startswith(f"{path}{place}; convert the file to UTF-8")


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress("\ufeffé\r\nb\n".encode()), "text.fr.gz")
    assert read_lines(path) == read_lines(str(path)) == ["é", "b"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-9],
        lambda whole: whole[:12],
        lambda whole: whole[:15] + bytes([whole[15] ^ 0xFF]) + whole[16:],
        lambda whole: whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:],  # the checksum
        lambda _: b"not packed at all",
    ],
)
def test_a_damaged_packed_file_is_refused(tmp_path: Path, damage: object) -> None:
    whole = gzip.compress(b"".join(b"%d a line of text\n" % i for i in range(200)))
    path = written(tmp_path, damage(whole), "text.gz")  # type: ignore[operator]
    with pytest.raises(
        UserError, match=r"cannot be read: .*; copy it again, or take .gz"
    ) as caught:
        read_lines(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(("name", "data"), [("text", b""), ("text.gz", gzip.compress(b""))])
def test_an_empty_file_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    path = written(tmp_path, data, name)
    with pytest.raises(UserError, match="the file is empty") as caught:
        read_lines(path)
    assert caught.value.where == str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file") as caught:
        read_lines(tmp_path / "missing.fr")
    assert caught.value.where == str(tmp_path / "missing.fr")
    with pytest.raises(UserError, match=r"cannot be read: Is a directory$"):
        read_lines(tmp_path)
