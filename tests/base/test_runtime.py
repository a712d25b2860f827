"""What a run notes of where it was made."""

from __future__ import annotations

import os
import shutil
import subprocess
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
