"""Checkpoints: what comes back, what is passed over, what a full disk leaves."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch

from headway.base.errors import UserError
from headway.checkpoint.steps import newest_checkpoint, save_checkpoint


def save(folder: Path, step: int, *, keep: int = 3, size: int = 50, **state: Any) -> Path:
    return save_checkpoint(
        folder,
        step,
        weights={"a.weight": torch.full((size,), float(step))},
        optimizer={"a.weight.moment": torch.full((size,), -float(step))},
        state={"step": step, **state},
        keep=keep,
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_everything_comes_back_bit_for_bit(tmp_path: Path) -> None:
    weights = {
        "float": torch.randn(3, 5),
        "bfloat": torch.randn(4).bfloat16(),
        "turned": torch.randn(3, 5).t(),
        "empty": torch.zeros(0, 2),
    }
    optimizer = {"step": torch.tensor(7.0), "rng": torch.get_rng_state(), "at": torch.tensor(2**60)}
    state = {
        "rate": 0.1 + 0.2,
        "tiny": 5e-324,
        "minus": -0.0,
        "big": 2**64 + 1,
        "nested": {"list": [1, None, True, "é"]},
    }
    save_checkpoint(tmp_path, 9, weights=weights, optimizer=optimizer, state=state, keep=1)
    found, passed_over = newest_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, passed_over) == (9, [])
    assert repr(found.state()) == repr(state)
    for there, back in [(weights, found.weights()), (optimizer, found.optimizer())]:
        assert back.keys() == there.keys()
        for name, tensor in there.items():
            assert back[name].dtype == tensor.dtype
            assert torch.equal(back[name], tensor), name


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), (1, 2), {1: 2}, torch.zeros(1), {"deep": [float("nan")]}]
)
def test_a_state_that_json_would_change_is_refused(tmp_path: Path, value: Any) -> None:
    save(tmp_path, 1)
    with pytest.raises(ValueError, match="plain JSON"):
        save(tmp_path, 2, odd=value)
    assert names(tmp_path) == ["step-1"]


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    for step in (9, 10, 100):
        save(tmp_path, step)
    found, _ = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 100


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(8, 13):
        save(tmp_path, step, keep=2)
    assert names(tmp_path) == ["step-11", "step-12"]


def test_damaged_ones_are_not_counted_among_those_kept(tmp_path: Path) -> None:
    save(tmp_path, 8)
    truncate(save(tmp_path, 9) / "optimizer.safetensors")
    save(tmp_path, 10, keep=2)
    assert names(tmp_path) == ["step-10", "step-8"]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 5, word="before")
    save(tmp_path, 5, word="after")
    found, _ = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state() == {"step": 5, "word": "after"}
    assert names(tmp_path) == ["step-5"]


def test_no_folder_and_an_empty_one_hold_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "none") == (None, [])
    assert newest_checkpoint(tmp_path) == (None, [])


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def other_step(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(record | {"step": 2}), encoding="utf-8")


def forget(*names: str) -> Callable[[Path], None]:
    """Take these files out of the record."""

    def damage(path: Path) -> None:
        record = json.loads(path.read_text(encoding="utf-8"))
        for name in names:
            del record["files"][name]
        path.write_text(json.dumps(record), encoding="utf-8")

    return damage


DAMAGES: list[tuple[str, Callable[[Path], None], str]] = [
    ("model.safetensors", truncate, "model.safetensors has 264 bytes instead of 272"),
    ("model.safetensors", flip, "model.safetensors is not as it was written"),
    ("optimizer.safetensors", flip, "optimizer.safetensors is not as it was written"),
    ("state.json", truncate, "state.json has"),
    ("state.json", Path.unlink, "there is no state.json"),
    ("complete.json", Path.unlink, "there is no complete.json"),
    ("complete.json", truncate, "complete.json is broken"),
    (
        "complete.json",
        lambda path: path.write_text("[]", encoding="utf-8") and None,
        "complete.json is broken",
    ),
    ("complete.json", other_step, "complete.json is of step 2"),
    ("complete.json", forget("model.safetensors"), "complete.json is broken"),
    ("complete.json", forget("optimizer.safetensors"), "complete.json is broken"),
    (
        "complete.json",
        forget("model.safetensors", "optimizer.safetensors"),
        "complete.json is broken",
    ),
    ("complete.json", forget("state.json"), "complete.json is broken"),
]


@pytest.mark.parametrize(("name", "damage", "flaw"), DAMAGES)
def test_a_damaged_one_is_passed_over(
    tmp_path: Path, name: str, damage: Callable[[Path], None], flaw: str
) -> None:
    save(tmp_path, 6)
    save(tmp_path, 7)
    damage(tmp_path / "step-7" / name)
    found, passed_over = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state() == {"step": 6}
    assert len(passed_over) == 1
    assert "step-7" in passed_over[0]
    assert flaw in passed_over[0]


def test_all_damaged_says_so_for_each(tmp_path: Path) -> None:
    for path in [save(tmp_path, 1), save(tmp_path, 2)]:
        truncate(path / "model.safetensors")
    found, passed_over = newest_checkpoint(tmp_path)
    assert found is None
    assert len(passed_over) == 2


def test_going_on_before_a_damaged_one_does_not_prune_the_new(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        save(tmp_path, step)
    flip(tmp_path / "step-15" / "model.safetensors")
    truncate(tmp_path / "step-10" / "model.safetensors")
    save(tmp_path, 7, keep=2)
    assert names(tmp_path) == ["step-5", "step-7"]


def test_another_format_is_refused(tmp_path: Path) -> None:
    record = save(tmp_path, 1) / "complete.json"
    record.write_text(
        record.read_text(encoding="utf-8").replace('"format": 1', '"format": 2'), encoding="utf-8"
    )
    with pytest.raises(UserError, match="format 2, this version reads format 1"):
        newest_checkpoint(tmp_path)


def test_what_killed_saves_left_is_no_checkpoint_and_goes(tmp_path: Path) -> None:
    save(tmp_path, 1)
    shutil.copytree(tmp_path / "step-1", tmp_path / ".step-2.12345.part")
    found, passed_over = newest_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, passed_over) == (1, [])
    save(tmp_path, 3)
    assert names(tmp_path) == ["step-1", "step-3"]


def test_one_that_had_stepped_aside_is_found(tmp_path: Path) -> None:
    save(tmp_path, 4).rename(tmp_path / ".step-4.12345.old")
    found, passed_over = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state() == {"step": 4}
    assert passed_over == []
    save(tmp_path, 5)
    assert names(tmp_path) == ["step-4", "step-5"]


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_room_in_rust(*_: object, **__: object) -> None:
    raise safetensors.SafetensorError("Error: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        ("safetensors.torch.save_file", no_room_in_rust),
        ("os.fsync", no_room),
        ("os.replace", no_room),
        ("pathlib.Path.write_text", no_room),
        ("pathlib.Path.mkdir", no_room),
    ],
)
@pytest.mark.parametrize("step", [1, 2])
def test_a_full_disk_leaves_the_old_ones(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    refusal: Callable[..., None],
    step: int,
) -> None:
    save(tmp_path, 1, word="before")
    with monkeypatch.context() as patched:
        patched.setattr(place, refusal)
        with pytest.raises(UserError, match=r"no space left on the disk; free some space"):
            save(tmp_path, step, keep=1)
    assert names(tmp_path) == ["step-1"]
    found, passed_over = newest_checkpoint(tmp_path)
    assert found is not None
    assert (found.state(), passed_over) == ({"step": 1, "word": "before"}, [])


def test_a_file_that_the_system_stops_leaves_the_old_ones(tmp_path: Path) -> None:
    save(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(UserError, match="larger than the system allows"):
            save(tmp_path, 2, size=100_000, keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == ["step-1"]
    assert newest_checkpoint(tmp_path)[1] == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file", encoding="utf-8")
    with pytest.raises(UserError, match="cannot write"):
        save(tmp_path / "checkpoints", 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    save(tmp_path, 1)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UserError, match="cannot write: Permission denied"):
            save(tmp_path, 2)
    finally:
        tmp_path.chmod(0o700)
    assert names(tmp_path) == ["step-1"]
