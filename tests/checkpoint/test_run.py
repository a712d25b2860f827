"""The run folder: started whole or not at all, opened with one message for each mistake."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.base import files
from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder

TOKENIZER = '{"model": "é"}\r\n'


def create(path: Path) -> RunFolder:
    run = RunFolder(path)
    run.create(
        'name = "x"\n[train]\nsteps = 3\n',
        {"kind": "transformer", "rate": 0.1},
        {"tokenizer.json": TOKENIZER},
        {"headway": "0.1.0"},
    )
    return run


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    create(tmp_path / "deep" / "run")
    run = RunFolder(tmp_path / "deep" / "run")
    assert run.recipe() == {"name": "x", "train": {"steps": 3}}
    config = run.config()
    assert (config["format"], config["kind"], config["rate"]) == (1, "transformer", 0.1)
    assert run.tokenizer_text("tokenizer.json") == TOKENIZER
    run.save_weights({"_orig_mod.a": torch.ones(2)})
    run.save_weights({"_orig_mod.a": torch.zeros(2)})
    assert run.weights()["a"].tolist() == [0, 0]
    run.metrics.append({"kind": "train", "nll": float("nan")})
    assert len(RunFolder(run.path).metrics.read()) == 1
    assert sorted(path.name for path in run.path.iterdir()) == [
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "recipe.toml",
        "tokenizer.json",
    ]


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    create(tmp_path)
    assert RunFolder(tmp_path).config()["kind"] == "transformer"


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    create(tmp_path / "run")
    before = (tmp_path / "run" / "config.json").stat().st_ino
    with pytest.raises(UserError, match="there is a run already; go on with --resume"):
        create(tmp_path / "run")
    assert (tmp_path / "run" / "config.json").stat().st_ino == before


def test_a_kill_at_the_beginning_leaves_a_folder_that_a_run_can_begin_in(tmp_path: Path) -> None:
    """Whichever file was being written; then nothing of it stays."""
    (tmp_path / ".mine").write_text("mine", encoding="utf-8")
    begun = multiprocessing.get_context("fork")
    for n in range(1, 5):
        process = begun.Process(target=_killed_at, args=(tmp_path, n))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        RunFolder(tmp_path).refuse_occupied()
    with create(tmp_path).lock():
        names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".mine", "config.json", "environment.json", "recipe.toml", "tokenizer.json"]


def _killed_at(path: Path, nth: int) -> None:
    real, calls = files.sync_file, iter(range(1, nth + 1))

    def sync(path: Path) -> None:
        if next(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        real(path)

    files.sync_file = sync
    create(path)


def test_a_run_killed_as_it_began_is_told_from_one_to_resume(tmp_path: Path) -> None:
    (create(tmp_path / "run").path / "config.json").unlink()
    with pytest.raises(
        UserError, match="as it began, or no run; delete it if it was one, or choose"
    ):
        create(tmp_path / "run")


def test_other_things_are_not_mixed_with_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"not empty \('notes.txt'\) and not a run"):
        create(tmp_path)
    with pytest.raises(UserError, match="there is a file of that name"):
        create(tmp_path / "notes.txt")
    with pytest.raises(UserError, match="cannot write"):
        create(tmp_path / "notes.txt" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_nothing_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, there: bool
) -> None:
    calls = 0
    real = files.sync_file

    def full(path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path)

    if there:
        (tmp_path / "run").mkdir()
    monkeypatch.setattr(files, "sync_file", full)
    with pytest.raises(UserError, match="no space left"):
        create(tmp_path / "run")
    assert [path.name for path in tmp_path.rglob("*")] == ["run"] * there


def test_a_full_disk_leaves_the_weights_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(tmp_path / "run")
    run.save_weights({"a": torch.ones(2)})
    before = sorted(run.path.iterdir())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="no space left"):
        run.save_weights({"a": torch.zeros(2)})
    assert run.weights()["a"].tolist() == [1, 1]
    assert sorted(run.path.iterdir()) == before


def test_what_is_no_run_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        RunFolder(tmp_path / "nowhere").config()
    with pytest.raises(UserError, match=r"not a run: there is no config\.json; name the folder"):
        RunFolder(tmp_path).config()
    with pytest.raises(UserError, match=r"not a run: there is no recipe\.toml"):
        RunFolder(tmp_path).recipe()
    with pytest.raises(UserError, match=r"not a run: there is no model\.safetensors"):
        RunFolder(tmp_path).weights()


def test_missing_parts_of_a_run(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    with pytest.raises(UserError, match=r"no model\.safetensors yet.*--resume"):
        run.weights()
    with pytest.raises(UserError, match=r"unknown tokeniser file 'tokenizer\.jsn'; did you mean"):
        run.tokenizer_text("tokenizer.jsn")
    (run.path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"there is no tokenizer\.json"):
        run.tokenizer_text("tokenizer.json")


@pytest.mark.parametrize(("version", "todo"), [(2, "update headway"), (0, "use an older headway")])
def test_a_run_of_another_format(tmp_path: Path, version: int, todo: str) -> None:
    config = create(tmp_path / "run").path / "config.json"
    config.write_text(
        config.read_text(encoding="utf-8").replace('"format": 1', f'"format": {version}'),
        encoding="utf-8",
    )
    message = f"a run of format {version}, this version reads format 1; {todo}"
    with pytest.raises(UserError, match=message):
        RunFolder(tmp_path / "run").config()
    with pytest.raises(UserError, match=message):
        RunFolder(tmp_path / "run").tokenizer_text("tokenizer.json")


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "1"}'])
def test_a_config_that_is_not_ours(tmp_path: Path, text: str) -> None:
    config = create(tmp_path / "run").path / "config.json"
    config.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="this is the file of no run"):
        RunFolder(tmp_path / "run").config()


def test_broken_texts_name_their_place(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    (run.path / "config.json").write_text('{\n"format": 1,\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json:3: not JSON"):
        run.config()
    (run.path / "recipe.toml").write_bytes(b"a = \xff\n")
    with pytest.raises(UserError, match=r"recipe\.toml: not TOML"):
        run.recipe()
    (run.path / "recipe.toml").write_text("a = \n", encoding="utf-8")
    with pytest.raises(UserError, match=r"recipe\.toml: not TOML.*line 1"):
        run.recipe()


def test_truncated_weights(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    run.save_weights({"a": torch.ones(20)})
    weights = run.path / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - 8)
    with pytest.raises(UserError, match=r"model\.safetensors: no weights to read"):
        run.weights()


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    (run.path / "tokenizer.json").write_bytes(TOKENIZER.replace("é", "e").encode())
    with pytest.raises(UserError, match="not the tokeniser that this model was trained with"):
        run.tokenizer_text("tokenizer.json")
