"""Files that are complete or absent: atomic writes, folders that appear whole, JSON records."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.base.errors import UserError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn what the system refuses (full disk, no permission, not a folder) into a UserError."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            todo = "free some space or choose another folder; what was there before is untouched"
            raise UserError("no space left on the disk", where=str(path), todo=todo) from error
        if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
            raise UserError(
                f"cannot write: {error.strerror}", where=str(path), todo="choose another path"
            ) from error
        raise


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a whole file or leave what was there: a file beside it, fsync, rename.

    Raises UserError where the disk is full or the place cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes its name only when the block ends well; else it vanishes.

    Every file in it reaches the disk before the rename. A folder of that name is replaced.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with explain_os_errors(path):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            yield beside
            for file in beside.rglob("*"):
                if file.is_file():
                    sync_file(file)
            sync_folder(beside)
            shutil.rmtree(path, ignore_errors=True)
            os.replace(beside, path)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Have the file's bytes on the disk before going on."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Have the folder's names on the disk before going on, where the system can."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(path: Path) -> str:
    """The SHA-256 of a file, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_json(value: Any) -> str:
    """JSON as we write it everywhere: readable, UTF-8, ends at a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises UserError naming the line where it is broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError("there is no such file", where=str(path)) from None
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON: {error.msg}", where=f"{path}:{error.lineno}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8: {error.reason}", where=str(path)) from None


class Records:
    """An append-only file of JSON records, one a line (JSONL)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; a line is written in one call, so that a kill leaves whole lines."""
        line = json.dumps(record, ensure_ascii=False) + "\n"
        with explain_os_errors(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(line)

    def read(self) -> list[dict[str, Any]]:
        """All records; a last line that a kill cut short is left out."""
        if not self.path.exists():
            return []
        whole = self.path.read_text(encoding="utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.split("\n") if line]

    def keep(self, wanted: list[dict[str, Any]]) -> None:
        """Replace the file's content by these records."""
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in wanted)
        write_atomic(self.path, text)
