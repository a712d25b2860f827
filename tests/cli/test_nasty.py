"""What nobody means to do: numbers and names beyond all bounds, streams that are closed, damage."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.checkpoint.run import RunFolder
from headway.checkpoint.weights import read_tensors, write_tensors
from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]
Run = Callable[[str], Path]


@pytest.fixture
def recipe(toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(load_recipe(toy_recipe("transformer", steps=2)).to_toml(), encoding="utf-8")
    return path


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Path:
    """A finished run, to damage."""
    return shutil.copytree(trained("plain"), tmp_path / "run")


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("train.keep=99999999999999999999", "train.keep: a whole number may have 64 bits at most"),
        ("tokenizer.size=4611686018427387904", "tokenizer.size: input should be less than or"),
        ("evaluate.beam=100000", "evaluate.beam: input should be less than or equal to 10000"),
        ("evaluate.length_penalty=11", "evaluate.length_penalty: input should be less than or"),
        ("description=caf\udce9", r"description: not valid Unicode: 'caf\udce9'"),
        ("model.d_feed_forward=9999999999999", "there is not enough memory for 12799"),
        ("model.d_feed_forward=999999999999999999", "there is not enough memory"),
    ],
)
def test_values_beyond_all_bounds(
    setting: str, what: str, recipe: Path, cli: Cli, tmp_path: Path
) -> None:
    """Told before anything is written, not after the training or by a traceback."""
    said = cli("train", recipe, "--set", setting, "--out", tmp_path / "run")
    assert what in said.error
    assert [path.name for path in tmp_path.iterdir()] == [recipe.name]


@pytest.mark.parametrize("option", ["--beam", "--nbest"])
def test_a_beam_beyond_all_bounds(option: str, trained: Run, cli: Cli) -> None:
    said = cli("translate", trained("plain"), option, 10**20, stdin=b"un\n")
    assert said.code == 2
    assert "less than or equal to 10000" in said.err
    assert "Traceback" not in said.err


def test_a_ratio_beyond_all_bounds(trained: Run) -> None:
    import headway

    translator = headway.load(trained("plain"))
    settings = translator.recipe.evaluate.model_copy(update={"max_ratio": 1.7e308})
    translator.recipe = translator.recipe.model_copy(update={"evaluate": settings})
    assert translator.translate(["un chat dort " * 5])[0]


def test_names_that_are_not_utf8(recipe: Path, cli: Cli, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    said = cli("train", recipe, "--out", tmp_path / odd)
    assert r"caf\udce9': the name is not valid Unicode" in said.error
    named = recipe.rename(tmp_path / f"{odd}.toml")
    assert cli("train", named, "--out", tmp_path / "run").code == 0
    command = RunFolder(tmp_path / "run").environment()["command"]
    assert command[2].endswith(r"caf\udce9.toml")


def test_closed_streams(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `<&- >&- 2>&-` leaves them, and some schedulers."""
    from headway.cli.main import main

    monkeypatch.setattr(sys, "argv", ["headway", "translate", str(trained("plain"))])
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as left:
        main()
    opened = [sys.stdin, sys.stdout, sys.stderr]
    for stream in opened:
        stream.close()
    assert not left.value.code


def test_a_full_disk_under_alignments(trained: Run, cli: Cli) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    said = cli("translate", trained("attention"), "--attention", "/dev/full", stdin=b"un chat\n")
    assert "/dev/full: no space left on the disk" in said.error


def test_a_loop_of_links(recipe: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    said = cli("train", recipe, "--out", tmp_path / "loop")
    assert "loop: cannot write: Too many levels of symbolic links" in said.error


def test_weights_that_are_not_numbers(run: Path, toy: Path, cli: Cli, tmp_path: Path) -> None:
    tensors = read_tensors(run / "model.safetensors")
    tensors["head.weight"][0, 0] = torch.nan
    write_tensors(run / "model.safetensors", tensors)
    for words in (
        ("translate", run, "--temperature", 1),
        ("evaluate", run),
        ("score", run, toy / "test.fr", toy / "test.en"),
    ):
        said = cli(*words, stdin=b"un\n")
        assert "run: the weights 'head.weight' are not all finite numbers" in said.error
        assert said.out == b""


@pytest.mark.parametrize("key", ["model", "tokenizers", "n_source"])
def test_a_config_that_lacks_something(key: str, run: Path, cli: Cli) -> None:
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    del config[key]
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for words in (("translate",), ("info",), ("train", "--resume", "--out")):
        assert f"run/config.json: there is no '{key}' in it" in cli(*words, run).error


def test_an_environment_that_lacks_the_hashes(run: Path, cli: Cli) -> None:
    (run / "environment.json").write_text("{}", encoding="utf-8")
    said = cli("train", "--resume", "--out", run)
    assert "run/environment.json: there are no hashes of data in it" in said.error


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_the_best_weights_are_lost(damage: str, run: Path, cli: Cli) -> None:
    """The training would find out at its end; it is told at its beginning, and there is a way."""
    weights = run / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-8])
    else:
        weights.unlink()
    said = cli("train", "--resume", "--out", run)
    assert "run: the best weights, of step 150, are lost" in said.error
    assert "train on with --resume --set train.steps=" in said.error
    # with so small a rate nothing gets better than the best that there was
    words = ("--set", "train.steps=152", "--set", "train.learning_rate=1e-9")
    said = cli("train", "--resume", "--out", run, *words)
    assert said.code == 0, said.err
    assert "are lost" in said.err
    assert "those of the next evaluation take their place" in said.err
    assert cli("translate", run, stdin=b"un\n").code == 0


def test_a_pipe_is_told_from_an_empty_file(recipe: Path, cli: Cli, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        said = cli(
            *("train", recipe, "--out", tmp_path / "run"),
            *("--set", f"data.train.source=/dev/fd/{reading}"),
        )
    finally:
        os.close(reading)
    assert f"/dev/fd/{reading}: the file is empty; give a file with text: what comes" in said.error
    (tmp_path / "mark").write_bytes(b"\xef\xbb\xbf")
    said = cli("train", recipe, "--set", f"data.train.source={tmp_path}/mark")
    assert "mark: the file is empty; give a file with text" in said.error


def test_resuming_a_training_that_is_under_way(run: Path, cli: Cli) -> None:
    """It is refused before the data are read, and changes nothing."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with RunFolder(run).lock():
        said = cli("train", "--resume", "--out", run, "--set", "train.steps=400")
    assert "run: another process is training here" in said.error
    assert "resumed" not in said.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
