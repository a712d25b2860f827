"""Lines of text: UTF-8 bytes that end at LF and nowhere else."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from headway.base.errors import UserError

if TYPE_CHECKING:  # the settings take a while to load, and verbs that read lines need none
    from headway.settings.data import Errors

BOM = b"\xef\xbb\xbf"
# What other tools take for a line end, or what a text should not hold
ODD = re.compile("[\x00\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029]")
CONVERT = "convert the file to UTF-8"
CHOOSE = f"{CONVERT}, or set errors = 'replace' or 'skip' beside its name"


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file, all at once; see `stream_lines`."""
    return [line for line in stream_lines(path) if isinstance(line, str)]


def stream_lines(
    path: str | Path, *, errors: Errors | None = None, may_be_empty: bool = False
) -> Iterator[str | bytes]:
    """The lines of a file, plain or .gz, one after another; see `split_lines` for where they end.

    A line that is not UTF-8 raises UserError ("strict", and None where nobody can choose), has
    U+FFFD in place of its bad bytes ("replace"), or comes as bytes, so that it is still there to
    count ("skip"). Raises UserError too if the file is missing or damaged, or empty unless it
    `may_be_empty`.
    """
    path, number = Path(path), 0
    try:
        with _opened(path) as file:
            for number, raw in enumerate(file, start=1):
                line = raw.removeprefix(BOM) if number == 1 else raw
                if not line:  # the mark was all there was
                    number = 0
                    break
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                try:
                    yield line.decode("utf-8")
                except UnicodeDecodeError as error:
                    if errors in ("strict", None):
                        todo = CHOOSE if errors else CONVERT
                        raise not_utf8(line, error, f"{path}:{number}", todo) from None
                    yield line if errors == "skip" else line.decode("utf-8", "replace")
    except FileNotFoundError:
        raise UserError("there is no such file", where=str(path), todo="check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        told = getattr(error, "strerror", None)  # gzip's own errors have none
        fix = None if told else "copy it again, or take .gz off the name of plain text"
        raise UserError(f"cannot be read: {told or error}", where=str(path), todo=fix) from None
    if not number and not (may_be_empty and path.is_file()):
        todo = "give a file with text"
        if not path.is_file():
            todo += (
                ": what comes from a pipe can be read only once, and data are read twice or more"
            )
        raise UserError("the file is empty", where=str(path), todo=todo)


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return open(path, "rb")


def split_lines(data: bytes, *, where: str) -> list[str]:
    """Split bytes at LF; a CR before it and a byte-order mark at the start are dropped.

    No other character ends a line (U+2028, NEL, a lone CR stay in the text), so that line i of one
    file belongs to line i of the other. Raises UserError naming line and byte of invalid UTF-8.
    """
    lines = data.removeprefix(BOM).split(b"\n")
    if not lines[-1]:
        lines.pop()
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise not_utf8(line, error, f"{where}:{number}", CONVERT) from None
    return texts


def not_utf8(line: bytes, error: UnicodeDecodeError, where: str, todo: str) -> UserError:
    """What to say of a line that is not UTF-8."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        todo = f"{CONVERT}: it is UTF-16"
    if line.startswith(b"\x1f\x8b"):
        todo = "it is compressed by gzip: unpack it, or let the file's name end in .gz"
    return UserError(
        f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start + 1}",
        where=where,
        todo=todo,
    )


def unequal(paths: Sequence[str], counts: Sequence[int], suspect: int) -> UserError:
    """Two files that do not go together; `suspect` is the line from which they seem to part."""
    return UserError(
        f"the files have {counts[0]} and {counts[1]} lines",
        where=", ".join(paths),
        todo=f"line i of one must belong to line i of the other; look at line {suspect}",
    )
