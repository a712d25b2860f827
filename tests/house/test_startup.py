"""Headway starts quickly, and every module can be the first that is imported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "headway"
COMMAND = Path(sys.executable).with_name("headway")
VERBS = ["demo", "train", "translate", "score", "evaluate", "attention", "data", "tokenizer"]
VERBS += ["study", "recipes", "info", "generate", "fill", "embed", "classify", "finetune"]
VERBS += ["prompt", "export", "import", "plan", "scaling", "bench"]

FRESH_IMPORTS = """
import importlib, os, sys, traceback
import torch, pydantic, rich, typer  # slow, and none of our business: loaded once, before the forks
failed = []
for name in sys.argv[1:]:
    assert not [known for known in sys.modules if known.startswith("headway")]
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
sys.exit(", ".join(failed) or 0)
"""

LIGHT_IMPORTS = """
import sys
import headway, headway.cli.main
from headway.settings.recipe import load_recipe, shipped_recipes
wanted = {
    "pairs": ("data.train.source", "data.train.target"),
    "tatoeba": ("data.train.file",),
    "sft/pairs": ("data.train.file",),
}
begin = {"model.from": "a", "model.preset": "bert-tiny"}
for name in shipped_recipes():
    own = begin if name.startswith("glue/") else {}
    if name.startswith("sft/"):
        own = begin | {"model.preset": "gpt2"}
    load_recipe(name, own | {key: "a" for key in wanted.get(name, ())})
heavy = {"torch", "matplotlib", "sacrebleu", "tokenizers", "babel", "tensorboard"}
sys.exit(", ".join(sorted(heavy & set(sys.modules))) or 0)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8"
    )


def test_the_package_runs_as_the_command() -> None:
    assert python("-m", "headway", "--version").stdout.startswith("headway ")


def test_help_takes_under_half_a_second() -> None:
    fastest = float("inf")
    for _ in range(6):  # best of three; three more where other work disturbs the clock
        start = time.perf_counter()
        result = subprocess.run(
            [COMMAND, "--help"], capture_output=True, text=True, encoding="utf-8"
        )
        fastest = min(fastest, time.perf_counter() - start)
        assert result.returncode == 0, result.stderr
        if fastest < 0.5:
            break
    assert fastest < 0.5
    assert [verb for verb in VERBS if verb not in result.stdout] == []


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself_without_torch(verb: str) -> None:
    result = python("-X", "importtime", str(COMMAND), verb, "--help")
    assert result.returncode == 0, result.stderr
    assert f"headway {verb}" in result.stdout
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "typer" in loaded
    assert "torch" not in loaded


def test_settings_and_command_line_load_nothing_heavy() -> None:
    result = python("-c", LIGHT_IMPORTS)
    assert result.returncode == 0, result.stderr


def test_every_module_can_be_imported_first() -> None:
    modules = [
        ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(PACKAGE.rglob("*.py"))
    ]
    assert len(modules) > 20
    result = python("-c", FRESH_IMPORTS, *modules)
    assert result.returncode == 0, result.stderr


def test_the_wheel_holds_the_whole_package(tmp_path: Path) -> None:
    # Built from a copy: a build leaves files in its source folder.
    copytree(ROOT / "src", tmp_path / "src", ignore=ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    result = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", ".", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = tmp_path.glob("headway-*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("headway/")}
    here = {
        f"headway/{file.relative_to(PACKAGE).as_posix()}"
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "headway/py.typed" in here
    assert inside == here
