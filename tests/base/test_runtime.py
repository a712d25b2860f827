"""What a run notes of where it was made."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.base import runtime


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_revision_is_read_without_touching_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git would refresh its index, under a lock that stays if the run is killed meanwhile."""
    source = tmp_path / "runtime.py"
    source.write_text("one\n", encoding="utf-8")
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    monkeypatch.setattr(runtime, "__file__", str(source))
    clean = runtime.environment()["git"]
    os.utime(source, (1, 1))  # as after a checkout: the index no longer knows this file's time
    before = (tmp_path / ".git" / "index").read_bytes()
    assert runtime.environment()["git"] == clean
    assert (tmp_path / ".git" / "index").read_bytes() == before
    source.write_text("two\n", encoding="utf-8")
    assert runtime.environment()["git"] == f"{clean}-dirty"


HELD_MB = """
import sys
from headway.base.runtime import keep_pages, return_pages

def held():
    with open("/proc/self/status", encoding="utf-8") as status:
        (line,) = (line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000

keep_pages()
blocks = [bytes(2000) for _ in range(40_000)]
del blocks[:-1]
before = held()
given_back = return_pages()
print(before - held(), given_back)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is another")
def test_freed_memory_goes_back_when_asked_for() -> None:
    """80 MB were freed, but for the last block, which lies at the end."""
    done = subprocess.run(
        [sys.executable, "-c", HELD_MB], capture_output=True, check=True, encoding="utf-8"
    )
    less, given_back = done.stdout.split()
    assert float(less) > 60
    assert given_back == "True"
