"""Files that are complete or absent: atomic writes, folders that appear whole, JSON."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
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


def cached(name: str) -> Path:
    """A file of that name in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "headway" / name


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
    return part_of(path, os.getpid(), kind)


def part_of(path: Path, process: int, kind: str = "part") -> Path:
    """Where a process fills what takes the name `path` when it is whole."""
    return path.with_name(f".{path.name}.{process}.{kind}")


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


def write_together(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to new files of a folder, all or none, the last one last.

    They reach the disk before the first takes its name, so that a kill leaves a part that
    `clear_leftovers` removes. Raises UserError where the disk is full or the folder refuses; then
    it is as it was, and absent if it was.
    """
    was_there, beside, moved = folder.is_dir(), _beside(folder / "files", "part"), list[Path]()
    with explain_os_errors(folder):
        _remove(beside)
        try:
            beside.mkdir(parents=True)
            for name, text in files.items():
                (beside / name).write_bytes(text.encode("utf-8"))
            _sync_tree(beside)
            for name in files:
                os.replace(beside / name, folder / name)
                moved.append(folder / name)
        except BaseException:
            for path in (beside, *moved):
                _remove(path)
            if not was_there:
                with contextlib.suppress(OSError):  # what went wrong first is what to tell
                    folder.rmdir()
            raise
        _remove(beside)
        sync_folder(folder)


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
    except (RecursionError, ValueError) as error:
        deep = isinstance(error, RecursionError)
        what = "nested too deep" if deep else "a number of thousands of digits"
        raise UserError(f"not JSON that can be read: {what}", where=str(path)) from None
