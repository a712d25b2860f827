"""Lines as they come, from a file, a pipe or a terminal: a window of them at a time."""

from __future__ import annotations

import select
from collections.abc import Iterator
from io import BufferedReader

from headway.base.errors import UserError
from headway.data.lines import BOM, not_utf8

PATIENCE_S = 0.05  # a writer who is silent for so long waits for the answer
_CHUNK = 1 << 16


def line_windows(stream: BufferedReader, *, size: int, where: str) -> Iterator[list[str]]:
    """The lines of a byte stream, as `split_lines` has them, in lists of at most `size`.

    A list is shorter where nothing more has come for 50 ms, so that whoever writes a line and
    waits is answered, and where the stream ends; no list is empty. Raises UserError naming line
    and byte of invalid UTF-8, after the lines before it.
    """
    first = 1
    for raw in _raw_windows(stream, size):
        if first == 1:
            raw[0] = raw[0].removeprefix(BOM)
        lines, wrong = _decode(raw, first, where)
        if lines:
            yield lines
        if wrong:
            raise wrong
        first += len(lines)


def lines_ahead(stream: BufferedReader) -> int | None:
    """How many lines are still to be read, where that can be known: of a file."""
    if stream.isatty() or not stream.seekable():
        return None
    here, n, last = stream.tell(), 0, b"\n"
    while chunk := stream.read(_CHUNK):
        n += chunk.count(b"\n")
        last = chunk[-1:]
    stream.seek(here)
    return n + (last != b"\n")


def _raw_windows(stream: BufferedReader, size: int) -> Iterator[list[bytes]]:
    whole: list[bytes] = []
    unfinished: list[bytes] = []  # pieces of a line that has not ended
    ended = False
    while whole or not ended:
        while len(whole) < size and not ended and (not whole or _has_more(stream)):
            chunk = stream.read1(_CHUNK)
            ended = not chunk
            *done, last = chunk.split(b"\n")
            if done:
                whole.append(b"".join([*unfinished, done[0]]))
                whole += done[1:]
                unfinished = []
            if last:
                unfinished.append(last)
        if ended and unfinished:
            whole.append(b"".join(unfinished))
            unfinished = []
        window, whole = whole[:size], whole[size:]
        if window:
            yield window


def _has_more(stream: BufferedReader) -> bool:
    """Whether bytes, or the end, come within the time that we wait."""
    try:
        return bool(select.select([stream], [], [], PATIENCE_S)[0])
    except (OSError, ValueError):  # nothing that one can wait for: bytes in memory
        return True


def _decode(raw: list[bytes], first: int, where: str) -> tuple[list[str], UserError | None]:
    """The lines up to one that is not UTF-8, and what is wrong with that."""
    lines: list[str] = []
    for line in raw:
        try:
            lines.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            place = f"{where}:{first + len(lines)}"
            return lines, not_utf8(line, error, place, "convert the input to UTF-8")
    return lines, None
