"""Files are complete or absent, whatever the disk does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.base import files
from headway.base.errors import UserError
from headway.base.files import (
    atomic_file,
    atomic_folder,
    clear_leftovers,
    digest,
    explain_os_errors,
    read_json,
    refuse_same,
    remove_folder,
    replaced_name,
    to_json,
    write_atomic,
    write_together,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refuse(number: int) -> Callable[..., None]:
    def refusal(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refusal


def test_texts_and_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new" / "text", "é\r\n\n")
    write_atomic(tmp_path / "new" / "bytes", b"\x00\xff")
    assert (tmp_path / "new" / "text").read_bytes() == b"\xc3\xa9\r\n\n"
    assert (tmp_path / "new" / "bytes").read_bytes() == b"\x00\xff"
    assert names(tmp_path / "new") == ["bytes", "text"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "new"


def test_what_is_read_is_not_overwritten(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("le chat\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(text)
    (tmp_path / "hard").hardlink_to(text)
    for out in (text, tmp_path / "link", tmp_path / "hard", tmp_path / "x" / ".." / "text"):
        with pytest.raises(UserError, match=f"^{out}: .* overwritten; choose another path"):
            refuse_same(out, tmp_path, None, text)
    with pytest.raises(UserError, match="overwritten"):  # two outputs, not there yet
        refuse_same(tmp_path / "new", tmp_path / "new")
    for out in (None, tmp_path / "new", tmp_path, Path(os.devnull)):
        refuse_same(out, text, tmp_path / "none", tmp_path, Path(os.devnull))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's devices")
def test_devices_are_written_to_and_not_replaced() -> None:
    write_atomic(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UserError, match="/dev/full: no space left on the disk"):
        write_atomic(Path("/dev/full"), "text")


@pytest.mark.parametrize("place", ["os.fsync", "os.replace", "pathlib.Path.write_bytes"])
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "no space left on the disk; free some space"),
        (errno.EDQUOT, "no space left in your quota"),
        (errno.EFBIG, "larger than the system allows"),
        (errno.EACCES, "cannot write: Permission denied; choose another path"),
        (errno.EROFS, "cannot write: Read-only file system"),
    ],
)
def test_a_refusal_is_one_message_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int, message: str
) -> None:
    write_atomic(tmp_path / "file", "old")
    with monkeypatch.context() as patched:
        patched.setattr(place, refuse(number))
        with pytest.raises(UserError, match=message) as caught:
            write_atomic(tmp_path / "file", "new")
    assert caught.value.where == str(tmp_path / "file")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["file"]


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), explain_os_errors(tmp_path):
        (tmp_path / "nothing").read_text(encoding="utf-8")


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write_atomic(tmp_path / "file", "x")
    for path in (tmp_path / "folder", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot write"):
            write_atomic(path, "x")
    assert names(tmp_path) == ["file", "folder"]


def test_an_interrupted_file_leaves_the_old_one(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", "old")
    half = atomic_file(tmp_path / "file")
    with pytest.raises(KeyboardInterrupt), half as beside:  # noqa: PT012
        beside.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text(encoding="utf-8") == "old"


def fill_folder(path: Path, text: str) -> None:
    with atomic_folder(path) as beside:
        (beside / "deep").mkdir()
        (beside / "a").write_text(text, encoding="utf-8")
        (beside / "deep" / "b").write_text(text, encoding="utf-8")


def test_a_folder_takes_its_name_when_it_is_full(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "folder") as beside:
        (beside / "a").write_text("x", encoding="utf-8")
        assert not (tmp_path / "folder").exists()
    assert names(tmp_path) == ["folder"]
    fill_folder(tmp_path / "folder", "new")
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "deep" / "b").read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_folder_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, error: BaseException
) -> None:
    fill_folder(tmp_path / "folder", "old")
    calls = 0
    real = os.replace

    def fails(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise error
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fails)
        with pytest.raises((UserError, KeyboardInterrupt)):
            fill_folder(tmp_path / "folder", "new")
    assert calls >= nth
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "a").read_text(encoding="utf-8") == "old"


def test_all_is_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    real = os.replace

    def note(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)

    def check(source: Path, target: Path) -> None:
        everything = [source, *Path(source).rglob("*")]
        assert {path.stat().st_ino for path in everything} <= synced
        real(source, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "replace", check)
    fill_folder(tmp_path / "folder", "x")
    write_atomic(tmp_path / "file", "x")
    assert tmp_path.stat().st_ino in synced


def test_leftovers_go_and_what_stepped_aside_comes_back(tmp_path: Path) -> None:
    for name in (".a.12.part", ".b.12.old", ".c.12.old", "c", ".other", ".a.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name, encoding="utf-8")
    (tmp_path / ".d.7.part").write_text("a file", encoding="utf-8")
    clear_leftovers(tmp_path)
    assert names(tmp_path) == [".a.part", ".other", "b", "c"]
    assert (tmp_path / "b" / "file").read_text(encoding="utf-8") == ".b.12.old"
    assert (tmp_path / "c" / "file").read_text(encoding="utf-8") == "c"
    clear_leftovers(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("name", "replaced"),
    [(".a.12.old", "a"), (".a.b.3.old", "a.b"), (".a.12.part", None), ("a", None), (".old", None)],
)
def test_names_of_what_stepped_aside(name: str, replaced: str | None) -> None:
    assert replaced_name(Path("x") / name) == replaced


def test_a_folder_that_goes_is_never_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_folder(tmp_path / "folder", "x")
    with monkeypatch.context() as patched:
        patched.setattr(files, "_remove", lambda path: None)
        remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_digest_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert digest(tmp_path / "file").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_json_keeps_floats_and_letters(tmp_path: Path) -> None:
    value = {"é": [0.1 + 0.2, 5e-324, 1e308, 2**70, None]}
    write_atomic(tmp_path / "file", to_json(value))
    assert read_json(tmp_path / "file") == value
    assert "é" in (tmp_path / "file").read_text(encoding="utf-8")
    assert to_json(value).endswith("}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n"a": 1,\n}', r"file:3: not JSON"),
        (b'"\xff"', "not UTF-8"),
        (b"[" * 100_000, r"file: not JSON that can be read: nested too deep"),
        (b"1" + b"0" * 5000, r"file: not JSON that can be read: a number of thousands of digits"),
    ],
)
def test_broken_json_names_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_json(tmp_path / "file")
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "nothing")


def test_files_come_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".mine").write_text("mine", encoding="utf-8")
    write_together(tmp_path, {"a": "1", "b": "2"})
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        ".mine": "mine",
        "a": "1",
        "b": "2",
    }
    moved = []
    real = os.replace

    def refuse(source: Path, target: Path) -> None:
        if target.name == "d":
            raise OSError(errno.EIO, "no")
        moved.append(target.name)
        real(source, target)

    monkeypatch.setattr("os.replace", refuse)
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(UserError, match="cannot write"):
            write_together(folder, {"c": "3", "d": "4"})
    assert moved == ["c", "c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine", "a", "b"]
