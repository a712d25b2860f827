"""A disk that is full, or fills up: one message, and what was whole before stays whole."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]


@pytest.fixture
def recipe(toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(load_recipe(toy_recipe("plain", steps=2)).to_toml(), encoding="utf-8")
    return path


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may have more bytes than that: to a writer it looks like a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("size", "save_every", "what"),
    [
        (500, 4, r"run: the file is larger"),
        (2500, 100, r"run/(tensorboard|metrics\.jsonl): the file is larger"),
        (9000, 4, r"run/checkpoints/step-4: the file is larger"),
    ],
)
def test_a_full_disk(
    size: int, save_every: int, what: str, recipe: Path, cli: Cli, tmp_path: Path
) -> None:
    small = {"train.steps": 20, "train.log_every": 1, "model.d_hidden": 8}
    small["train.save_every"] = save_every
    words = [word for name, value in small.items() for word in ("--set", f"{name}={value}")]
    with room_for(size):
        said = cli("train", recipe, "--out", tmp_path / "run", *words)
    assert re.search(what, said.error)
    assert "free some space or choose another folder" in said.error
    left = {path.name for path in tmp_path.rglob("*")}
    assert ("run" in left) == (size > 500)
    assert not [name for name in left if name.startswith(("step-", ".", "model.safetensors"))]
    if size == 9000:  # there is room again
        said = cli("train", "--resume", "--out", tmp_path / "run")
        assert said.code == 0, said.err
        assert "no checkpoint yet, so training begins at step 0" in said.err


def test_a_full_disk_under_tensorboard_s_thread(
    recipe: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.base.records import Records

    monkeypatch.setattr(Records, "append", lambda _, record: None)  # or it may be full before
    words = ("--set", "train.steps=20", "--set", "train.log_every=1")
    with room_for(2500):
        said = cli("train", recipe, "--out", tmp_path / "run", *words, "--set", "model.d_hidden=8")
    assert "run/tensorboard: the file is larger" in said.error


def test_a_checkpoint_survives_a_disk_that_fills_up(
    recipe: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.checkpoint import steps

    write, written = steps.write_tensors, []

    def until_full(path: Path, tensors: Any) -> None:
        if len(written) >= 4:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        write(path, tensors)

    monkeypatch.setattr(steps, "write_tensors", until_full)
    words = ("--set", "train.steps=9", "--set", "train.save_every=2")
    said = cli("train", recipe, "--out", tmp_path / "run", *words)
    assert "run/checkpoints/step-6: no space left on the disk" in said.error
    names = sorted(path.name for path in (tmp_path / "run/checkpoints").iterdir())
    assert names == ["step-2", "step-4"]
    monkeypatch.undo()
    said = cli("train", "--resume", "--out", tmp_path / "run")
    assert said.code == 0
    assert f"resumed {tmp_path}/run after step 4 of 9" in said.err
