"""Lines of a stream: the same as of the whole, and no waiting for what does not come."""

from __future__ import annotations

import io
import os
import random
import threading
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.data import stream as module
from headway.data.lines import split_lines
from headway.data.stream import line_windows, lines_ahead

TEXTS = [
    b"",
    b"\n",
    b"\n\n",
    b"un",
    b"un\r\ndeux\n\r\nun\xe2\x80\xa8chat\r",
    b"\xef\xbb\xbfun\n\xef\xbb\xbfdeux",
    "é\nà🙂\n\n".encode() * 9 + b"  end",
]


class Slow(io.RawIOBase):
    """Gives a few bytes at a time, cut anywhere."""

    def __init__(self, data: bytes, seed: int) -> None:
        self.data, self.random = data, random.Random(seed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        n = self.random.randint(1, 5)
        piece, self.data = self.data[:n], self.data[n:]
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("data", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_lines_are_those_of_the_whole(data: bytes, size: int) -> None:
    wanted = split_lines(data, where="here")
    for seed in range(3):
        windows = list(line_windows(io.BufferedReader(Slow(data, seed)), size=size, where="here"))
        assert [line for window in windows for line in window] == wanted
        assert all(0 < len(window) <= size for window in windows)
    windows = list(line_windows(io.BytesIO(data), size=size, where="here"))  # type: ignore[arg-type]
    assert [len(window) for window in windows[:-1]] == [size] * (len(windows) - 1)


def test_a_writer_who_waits_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is written after the answer to the one before."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    reading, writing = os.pipe()
    with open(reading, "rb") as source:
        windows = line_windows(source, size=100, where="here")
        for line in ("un", "deux\ntrois", "quatre"):
            os.write(writing, line.encode() + b"\nbegun")
            assert next(windows) == [f"{word}" for word in line.split("\n")]
            os.write(writing, b"\n")
            assert next(windows) == ["begun"]
        os.write(writing, b"last")
        os.close(writing)
        assert list(windows) == [["last"]]


def test_a_quick_writer_fills_windows() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as out:
            out.write(b"un chat\n" * 20_000)

    writer = threading.Thread(target=write)
    writer.start()
    with open(reading, "rb") as source:
        sizes = [len(window) for window in line_windows(source, size=5000, where="here")]
    writer.join()
    assert sum(sizes) == 20_000
    assert len(sizes) < 8


def test_a_bad_byte_is_told_after_the_lines_before_it() -> None:
    windows = line_windows(io.BytesIO(b"a\nb\nc\nun\xff\nd\n"), size=2, where="here")  # type: ignore[arg-type]
    assert [next(windows), next(windows)] == [["a", "b"], ["c"]]
    with pytest.raises(UserError, match="here:4: not UTF-8: byte 0xff at position 3"):
        next(windows)


@pytest.mark.parametrize("data", TEXTS)
def test_the_lines_of_a_file_are_counted_and_still_there(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"gone\n" + data)
    with open(tmp_path / "in", "rb") as file:
        file.readline()
        assert lines_ahead(file) == len(split_lines(data, where="here"))
        assert file.read() == data


def test_the_lines_of_a_pipe_are_not_known() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb") as source:
        assert lines_ahead(source) is None
