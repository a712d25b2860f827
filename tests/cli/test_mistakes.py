"""Bad input: one message that says where, exit code 2, and nothing half written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]
Run = Callable[[str], Path]


@pytest.fixture
def recipe(toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(load_recipe(toy_recipe("plain", steps=2)).to_toml(), encoding="utf-8")
    return path


@pytest.fixture
def files(toy: Path, tmp_path: Path) -> Path:
    """The toy files, to break."""
    return shutil.copytree(toy, tmp_path / "files")


def listing(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def drop_a_line(files: Path) -> str:
    lines = (files / "train.en").read_text(encoding="utf-8").splitlines(keepends=True)
    (files / "train.en").write_text("".join(lines[:-1]), encoding="utf-8")
    return "train.en: the files have 400 and 399 lines; line i of one"


def break_utf8(files: Path) -> str:
    data = (files / "train.fr").read_bytes().split(b"\n")
    data[6] = b"caf\xe9"
    (files / "train.fr").write_bytes(b"\n".join(data))
    return "train.fr:7: not UTF-8: byte 0xe9 at position 4; convert the file"


def empty_a_file(files: Path) -> str:
    (files / "train.fr").write_bytes(b"")
    return "train.fr: the file is empty; give a file with text"


def lose_a_file(files: Path) -> str:
    (files / "train.en").unlink()
    return "train.en: there is no such file; check the path"


def break_validation(files: Path) -> str:
    (files / "valid.en").write_bytes(b"one\n")
    return "valid.en: the files have 20 and 1 lines"


@pytest.mark.parametrize(
    "damage", [drop_a_line, break_utf8, empty_a_file, lose_a_file, break_validation]
)
def test_bad_files(
    damage: Callable[[Path], str], recipe: Path, files: Path, cli: Cli, tmp_path: Path
) -> None:
    what = damage(files)
    names = [f"data.{part}.{side}" for part in ("train", "valid") for side in ("source", "target")]
    paths = [files / f"{part}.{side}" for part in ("train", "valid") for side in ("fr", "en")]
    words = [
        word
        for name, path in zip(names, paths, strict=True)
        for word in ("--set", f'{name}="{path}"')
    ]
    before = listing(tmp_path)
    said = cli("train", recipe, *words, "--out", tmp_path / "run")
    assert what in said.error
    assert str(files) in said.error
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("train.step=5", "recipe.toml: unknown key 'train.step'; did you mean 'steps'?"),
        ("trian.steps=5", "recipe.toml: unknown key 'trian'; did you mean 'train'?"),
        ("optimizer=adam", "unknown key 'optimizer'; did you mean 'train.optimizer'?"),
        ("tokenizer.beam=3", "unknown key 'tokenizer.beam'; did you mean 'evaluate.beam'?"),
        ("model.lowercase=true", "unknown key 'model.lowercase'; known here: "),  # two have it
        ("train.steps=many", "train.steps: input should be a valid integer, not 'many'"),
        ("train.steps=2.5", "train.steps: input should be a valid integer"),
        ("train.steps=-1", "train.steps: input should be greater than 0, not -1"),
        ("train.learning_rate=nan", "train.learning_rate: input should be a finite number"),
        ("train", "--set: 'train' is not key=value"),
        ("train.steps.more=1", "--set train.steps.more: 'steps' is a value, not a table"),
        ("tokenizer.kind=bpee", "tokenizer.kind: input should be 'character', 'word', 'bpe'"),
        ("model.score=adaptive", "model.score: input should be"),
        ("data.train.lines=3", "the training data have 27 target tokens in 3 pairs, fewer than"),
        ("train.batch_tokens=999999", "fewer than one batch of 999999"),
    ],
)
def test_bad_settings(setting: str, what: str, recipe: Path, cli: Cli, tmp_path: Path) -> None:
    before = listing(tmp_path)
    said = cli("train", recipe, "--set", setting, "--out", tmp_path / "run")
    assert what in said.error
    assert listing(tmp_path) == before


def test_heads_that_do_not_divide_the_width(
    toy_recipe: Callable[..., dict[str, Any]], cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(load_recipe(toy_recipe("transformer")).to_toml(), encoding="utf-8")
    said = cli("train", path, "--set", "model.n_heads=3", "--out", tmp_path / "run")
    assert (
        f"{path}, model: n_heads = 3 does not divide d_model = 32: choose a divisor" in said.error
    )
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("cldr/transfomer", "unknown recipe 'cldr/transfomer'; did you mean 'cldr/transformer'?"),
        ("pears", "did you mean 'pairs'? known: bert/pretrain-small, cldr/rnn, "),
        ("nothing.toml", "nothing.toml: there is no such recipe file"),
        ("pairs", "recipe pairs, data.train.source: names no file; give it as --set"),
    ],
)
def test_bad_recipes(
    name: str, what: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert what in cli("train", name).error
    assert list(tmp_path.iterdir()) == []


def test_a_file_or_a_run_in_place_of_a_recipe(
    recipe: Path, trained: Run, cli: Cli, tmp_path: Path
) -> None:
    name = str(recipe).removesuffix(".toml")
    assert f"unknown recipe '{name}'; did you mean '{recipe}'?" in cli("train", name).error
    run = trained("plain")
    assert f"unknown recipe '{run}'; did you mean '{run}/recipe.toml'?" in cli("train", run).error
    said = cli("train", "--resume", run)
    assert f"name it with --out: headway train --resume --out {run}" in said.error


def test_a_folder_of_runs(trained: Run, cli: Cli, tmp_path: Path) -> None:
    for name in ("two", "one"):
        shutil.copytree(trained("plain"), tmp_path / name)
    said = cli("info", tmp_path)
    assert f"{tmp_path}: not a run: there is no config.json; runs in it: one, two" in said.error


def test_broken_toml_is_told_with_its_line(recipe: Path, cli: Cli, tmp_path: Path) -> None:
    recipe.write_text("[train]\nsteps = \n", encoding="utf-8")
    assert "recipe.toml: not TOML: " in (said := cli("train", recipe)).error
    assert "line 2" in said.error


def test_no_recipe_and_no_such_device(recipe: Path, cli: Cli, tmp_path: Path) -> None:
    assert "no recipe is named; see them with: headway recipes" in cli("train").error
    said = cli("train", recipe, "--out", tmp_path / "run", "--device", "tpu")
    assert "unknown device 'tpu'; did you mean 'cpu'? known: auto, cpu, cuda" in said.error
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_over(recipe: Path, trained: Run, cli: Cli, tmp_path: Path) -> None:
    before = listing(trained("plain"))
    said = cli("train", recipe, "--out", trained("plain"))
    assert f"{trained('plain')}: there is a run already; go on with --resume" in said.error
    assert listing(trained("plain")) == before
    assert "training pairs" not in said.err  # told before the data are prepared
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    said = cli("train", recipe, "--out", tmp_path / "mine")
    assert "the folder is not empty ('thesis.tex') and not a run" in said.error
    assert "there is a file of that name" in cli("train", recipe, "--out", recipe).error


@pytest.mark.parametrize(
    "words",
    [
        ("translate",),
        ("evaluate",),
        ("info",),
        ("attention", "--source", "un", "--out", "a.svg"),
        ("train", "--resume", "--out"),
    ],
)
def test_each_verb_asks_for_a_run(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert f"{missing}: there is no such folder" in cli(*words, missing).error
    assert f"{tmp_path}: not a run: there is no config.json" in cli(*words, tmp_path).error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["translate", "evaluate", "info", "train --resume --out"])
def test_each_verb_tells_of_a_damaged_run(
    verb: str, trained: Run, cli: Cli, tmp_path: Path
) -> None:
    run = shutil.copytree(trained("plain"), tmp_path / "run")
    weights = run / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    if "train" not in verb:  # it goes on from a checkpoint, and has no need of them
        assert "run/model.safetensors: no weights to read" in cli(*verb.split(), run).error
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    (run / "config.json").write_text(json.dumps(config | {"format": 2}), encoding="utf-8")
    before = listing(run)
    said = cli(*verb.split(), run)
    assert "run/config.json: a run of format 2, this version reads format 1; update" in said.error
    assert listing(run) == before


def test_bad_files_to_evaluate_on(trained: Run, toy: Path, cli: Cli, tmp_path: Path) -> None:
    said = cli("evaluate", trained("plain"), "--data", toy / "test.fr", tmp_path / "none.en")
    assert f"{tmp_path}/none.en: there is no such file" in said.error
    said = cli(
        *("evaluate", trained("plain"), "--data", toy / "test.fr", toy / "valid.en"),
        *("--json", tmp_path / "scores.json"),
    )
    assert "the files have 40 and 20 lines" in said.error
    assert list(tmp_path.iterdir()) == []


def test_no_test_part(toy_recipe: Callable[..., dict[str, Any]], cli: Cli, tmp_path: Path) -> None:
    import headway

    recipe = toy_recipe("plain", steps=1)
    del recipe["data"]["test"], recipe["data"]["valid"]
    headway.train(recipe, out=tmp_path / "run")
    assert b"best weights   those at the end: there is no" in cli("info", tmp_path / "run").out
    said = cli("evaluate", tmp_path / "run")
    assert (
        "the recipe has no test part and no validation part; name two files with --data"
        in said.error
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--temperature", 1, "--beam", 2), "it goes without --beam and --nbest"),
        (("--temperature", 1, "--nbest", 2), "it goes without --beam and --nbest"),
        (("--top-p", 0.5), "--top-p and --seed are for random draws; give --temperature too"),
        (("--seed", 1), "--top-p and --seed are for random draws"),
        (("--temperature", 0), "cannot sample at temperature 0"),
        (("--temperature", 1, "--top-p", 2), "top_p: 2.0 is no share of 1"),
        (("--temperature", 1, "--seed", -1), "-1 is no seed"),
        (("--beam", 2, "--nbest", 3), "a beam 2 wide cannot give 3 hypotheses"),
    ],
)
def test_options_that_do_not_go_together(
    words: tuple[Any, ...], what: str, trained: Run, cli: Cli
) -> None:
    said = cli("translate", trained("plain"), *words, stdin=b"un chat\n")
    assert what in said.error
    assert said.out == b""


def test_input_that_is_not_utf8(trained: Run, cli: Cli) -> None:
    said = cli("translate", trained("plain"), stdin=b"un\n\xff\n")
    assert "standard input:2: not UTF-8: byte 0xff at position 1" in said.error
    assert said.out.count(b"\n") == 1  # the line before it


def test_a_picture_of_another_kind(trained: Run, cli: Cli, tmp_path: Path) -> None:
    words = ("attention", trained("attention"), "--source", "un", "--out")
    assert "PNG or SVG" in cli(*words, tmp_path / "a.jpg").error
    said = cli("attention", trained("plain"), "--source", "un", "--out", tmp_path / "a.svg")
    assert "this model has no attention between source and target" in said.error
    said = cli(*words, tmp_path / "a.svg", "--layer", 3)
    assert "there is no layer 3; layers are 0 to 0" in said.error
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where_an_error_came_from(cli: Cli) -> None:
    from headway.base.errors import UserError

    for words in (("--debug", "recipes", "pears"), ("recipes", "pears", "--debug")):
        with pytest.raises(UserError, match="unknown recipe 'pears'"):
            cli(*words)


@pytest.mark.parametrize("words", [("trian",), ("train", "--steps", 3), ("translate",)])
def test_words_that_no_verb_knows(words: tuple[Any, ...], cli: Cli) -> None:
    said = cli(*words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert "Usage: " in said.err
