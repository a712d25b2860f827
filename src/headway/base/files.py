"""Files that are complete or absent: atomic writes, folders that appear whole, JSON records."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.base.errors import UserError

NO_ROOM = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "no space left in your quota",
    errno.EFBIG: "the file is larger than the system allows",
}
_REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
    errno.EBUSY,
    errno.EIO,
}
_LEFTOVER = re.compile(r"\.(?P<name>.+)\.\d+\.(?P<kind>part|old)")


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn what the system refuses (full disk, no permission, not a folder) into a UserError."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            todo = "free some space or choose another folder; what was there before is untouched"
            raise UserError(NO_ROOM[error.errno], where=str(path), todo=todo) from error
        if error.errno in _REFUSED:
            what = f"cannot write: {os.strerror(error.errno)}"
            raise UserError(what, where=str(path), todo="choose another path") from error
        raise


def refuse_same(out: Path | None, *others: Path | None) -> None:
    """Raise UserError if one of the other files of a command is the one that it would overwrite."""
    if out is None or (out.exists() and not out.is_file()):  # devices and pipes lose nothing
        return
    for other in filter(None, others):
        one_path = os.path.realpath(out) == os.path.realpath(other)
        if one_path or (out.exists() and other.exists() and out.samefile(other)):
            raise UserError(
                "this file has another part in the command, and would be overwritten",
                where=str(out),
                todo="choose another path",
            )


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A path to write a file to, which takes its place when the block ends well; else it vanishes.

    The file is written under its own name in a folder beside, because some writers leave files of
    their own when they are killed. Raises UserError where the disk is full or the place refuses.
    """
    target = Path(os.path.realpath(path))  # a link stays a link; `resolve` breaks at a loop
    beside = _beside(target, "part")
    with explain_os_errors(path):
        _remove(beside)
        beside.mkdir(parents=True)
        try:
            yield beside / path.name
            sync_file(beside / path.name)
            os.replace(beside / path.name, target)
        finally:
            _remove(beside)
        sync_folder(target.parent)


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a whole file or leave what was there: a file beside it, fsync, rename.

    A device or a pipe (/dev/stdout) is written to as it is. Raises UserError where the disk is
    full or the place cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file() and not path.is_dir():
        with explain_os_errors(path):
            path.write_bytes(data)
        return
    with atomic_file(path) as beside:
        beside.write_bytes(data)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes its name only when the block ends well; else it vanishes.

    Every file in it reaches the disk before the rename. A folder of that name is replaced: it
    steps aside first (`.NAME.PID.old`) and goes when the new one is in place, so that a kill at
    any moment leaves one of them whole; `clear_leftovers` gives an old one its name back.
    """
    beside, aside = _beside(path, "part"), _beside(path, "old")
    with explain_os_errors(path):
        _remove(beside)
        beside.mkdir(parents=True)
        try:
            yield beside
            _sync_tree(beside)
            if path.exists():
                _remove(aside)
                os.replace(path, aside)
            os.replace(beside, path)
        except BaseException:
            if aside.exists() and not path.exists():
                os.replace(aside, path)
            _remove(beside)
            raise
        sync_folder(path.parent)
        _remove(aside)


def remove_folder(path: Path) -> None:
    """Delete a folder so that its name never stands for half of it."""
    beside = _beside(path, "part")
    with explain_os_errors(path):
        _remove(beside)
        os.replace(path, beside)
        _remove(beside)


def replaced_name(path: Path) -> str | None:
    """The name of the folder that `path` was before it stepped aside, None if it is no such."""
    match = _LEFTOVER.fullmatch(path.name)
    return match["name"] if match and match["kind"] == "old" else None


def clear_leftovers(folder: Path) -> None:
    """Tidy what killed writers left: parts go, a folder that had stepped aside comes back.

    Only for a folder that one process at a time writes to.
    """
    if not folder.is_dir():
        return
    with explain_os_errors(folder):
        for path in sorted(folder.iterdir()):
            match = _LEFTOVER.fullmatch(path.name)
            if match is None:
                continue
            if match["kind"] == "old" and not (folder / match["name"]).exists():
                os.replace(path, folder / match["name"])
            else:
                _remove(path)


def _remove(path: Path) -> None:
    """Delete a file or folder if it is there; what cannot be deleted stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)
    sync_folder(folder)


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
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks cannot do it for folders
            raise
    finally:
        os.close(handle)


def digest(path: Path) -> str:
    """The SHA-256 of a file, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_json(value: Any) -> str:
    """JSON as we write it everywhere: readable, UTF-8, ends at a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_text(path: Path) -> str:
    """The text in a file; raises UserError if there is none, or it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("there is no such file", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8: {error.reason}", where=str(path)) from None


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises UserError naming the line where it is broken."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON: {error.msg}", where=f"{path}:{error.lineno}") from None


class Records:
    """An append-only file of JSON records, one a line (JSONL)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; what a kill or a full disk left of a line before it is cut off.

        Numbers that are not finite are written NaN and Infinity, as Python's json has them: a
        run that diverges must still be able to say so.
        """
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")
        with explain_os_errors(self.path), open(self.path, "ab", buffering=0) as file:
            end = self._whole_bytes()
            file.truncate(end)
            if file.write(line) != len(line):
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _whole_bytes(self) -> int:
        """Bytes up to the end of the last whole line."""
        with open(self.path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                start = max(0, end - 4096)
                file.seek(start)
                cut = file.read(end - start).rfind(b"\n")
                if cut >= 0:
                    return start + cut + 1
                end = start
        return 0

    def read(self) -> list[dict[str, Any]]:
        """All records; a last line that a kill cut short is left out.

        Raises UserError naming the line that is not a record.
        """
        if not self.path.exists():
            return []
        records = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                where = f"{self.path}:{number}"
                raise UserError("not a record", where=where, todo="delete that line")
            records.append(record)
        return records

    def keep(self, wanted: list[dict[str, Any]]) -> None:
        """Replace the file's content by these records."""
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in wanted)
        write_atomic(self.path, text)
