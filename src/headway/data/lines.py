"""Lines of text: UTF-8 bytes that end at LF and nowhere else."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from headway.base.errors import UserError

BOM = b"\xef\xbb\xbf"
# What other tools take for a line end, or what a text should not hold
ODD = set("\x00\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file, plain or .gz; see `split_lines`.

    Raises UserError if the file is missing, empty, damaged, or not UTF-8.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise UserError("there is no such file", where=str(path), todo="check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot be read: {error}", where=str(path)) from None
    if not data:
        raise UserError("the file is empty", where=str(path), todo="give a file with text")
    return split_lines(data, where=str(path))


def split_lines(data: bytes, *, where: str) -> list[str]:
    """Split bytes at LF; a CR before it and a byte-order mark at the start are dropped.

    No other character ends a line (U+2028, NEL, a lone CR stay in the text), so that line i of one
    file belongs to line i of the other. Raises UserError naming line and byte of invalid UTF-8.
    """
    lines = data.removeprefix(BOM).split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        return [line.removesuffix(b"\r").decode("utf-8") for line in lines]
    except UnicodeDecodeError:
        raise _invalid(lines, where) from None


def odd_lines(lines: list[str]) -> list[int]:
    """Numbers, from 1, of the lines with characters that other tools take for line ends, or NUL."""
    return [number for number, line in enumerate(lines, start=1) if not ODD.isdisjoint(line)]


def _invalid(lines: list[bytes], where: str) -> UserError:
    for number, line in enumerate(lines, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return UserError(
                f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start + 1}",
                where=f"{where}:{number}",
                todo="convert the file to UTF-8",
            )
    raise AssertionError("called for lines that are all UTF-8")
