"""The examples of --help: each has the words and options of its verb."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from headway.cli.main import app

ROOT: Any = typer.main.get_command(app)
EXAMPLE = re.compile(r"^(?:Examples?:)? *(headway .+)$", re.MULTILINE)


def examples(command: Any = ROOT) -> list[str]:
    """The examples of a command and of those below it."""
    if hasattr(command, "commands"):
        return [each for below in command.commands.values() for each in examples(below)]
    return EXAMPLE.findall(command.help or "")


def test_there_are_examples() -> None:
    verbs = {each.split()[1] for each in examples()}
    assert verbs == ROOT.commands.keys()


@pytest.mark.parametrize("example", examples())
def test_an_example_is_understood(example: str) -> None:
    words = shlex.split(re.split(r" [<>|] ", example)[0])[1:]
    command = ROOT
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)


def test_the_examples_of_sweep_have_grids(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order: the second goes on with the first. Less text changes nothing of a grid of bytes."""
    monkeypatch.chdir(tmp_path)
    first, second = (shlex.split(each)[1:] for each in examples() if "scaling sweep" in each)
    said = cli(*first, "--set", "data.train.stdlib.lines=40", "--list")
    assert said.code == 0, said.err
    assert "sbatch --array=1-15" in said.out.decode()
    assert cli(*second).out == said.out
