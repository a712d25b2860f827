"""What a second reading found: a run is one process's, and what made it stays as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.base.errors import UserError
from headway.base.runtime import pick_device
from headway.checkpoint.run import RunFolder
from headway.data.pairs import load_part
from headway.runs import demo
from headway.settings.data import DataSettings
from headway.settings.recipe import load_recipe

Run = Callable[[str], Path]


@pytest.fixture
def copy(trained: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained("transformer"), tmp_path / "run"))


def test_two_trainings_in_one_folder_are_refused(copy: Path) -> None:
    folder = RunFolder(copy)
    with (
        folder.lock(),
        pytest.raises(UserError, match="another process is training here"),
        RunFolder(copy).lock(),
    ):
        pass
    with folder.lock():  # free again
        pass


def test_a_second_training_changes_nothing_of_the_first(copy: Path) -> None:
    """Nor its log, nor its recipe: to go on forgets what was logged after the checkpoint."""
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with (
        RunFolder(copy).lock(),
        pytest.raises(UserError, match="another process is training here"),
    ):
        headway.train(None, out=copy, resume=True, train={"steps": 151})
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_leftovers_of_a_killed_writer_go(copy: Path) -> None:
    left = copy / ".model.safetensors.12345.part"
    left.mkdir()
    with RunFolder(copy).lock():
        assert not left.exists()


def test_a_recipe_that_was_edited_is_not_taken_for_the_models(copy: Path) -> None:
    recipe = copy / "recipe.toml"
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("n_heads = 2", "n_heads = 4"), encoding="utf-8")
    with pytest.raises(UserError, match=r"recipe.toml: its model is not the one in config.json"):
        headway.load(copy)


def test_a_recipe_file_beside_resume_is_read_again(copy: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    text = (copy / "recipe.toml").read_text(encoding="utf-8")
    for was, now in (("steps = 150", "steps = 152"), ('dtype = "float32"\n', "")):
        assert was in text  # the dtype that was measured is in the run's recipe only
        text = text.replace(was, now)
    mine.write_text(text, encoding="utf-8")
    headway.train(mine, out=copy, resume=True)
    steps = [each["step"] for each in RunFolder(copy).metrics.read() if each["kind"] == "train"]
    assert max(steps) == 152


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.batch_tokens", 77),
        ("train.optimizer", "adamw"),
        ("evaluate.metric", "bleu"),  # against the best loss so far, -0.1, any BLEU would win
        ("evaluate.lines", 3),
        ("evaluate.lowercase", True),
    ],
)
def test_what_order_state_and_best_rest_on_cannot_change(
    copy: Path, key: str, value: object
) -> None:
    before = (copy / "recipe.toml").read_bytes()
    with pytest.raises(UserError, match=f"'{key}' of a run that has begun cannot change"):
        headway.train(None, out=copy, resume=True, **{key: value})
    assert (copy / "recipe.toml").read_bytes() == before


def test_a_preset_that_is_asked_for_replaces_the_recipes_own_keys() -> None:
    files = {"data.train.source": "a", "data.train.target": "b"}
    plain = load_recipe("pairs", files).model
    big = load_recipe("pairs", files | {"model.preset": "transformer-big"}).model
    wide = load_recipe("pairs", files | {"model.preset": "transformer-big", "model.n_heads": 8})
    assert plain.kind == big.kind == wide.model.kind == "transformer"
    assert (plain.d_model, big.d_model, wide.model.d_model) == (192, 1024, 1024)
    assert (big.n_heads, wide.model.n_heads) == (16, 8)


def test_a_demo_never_replaces_runs_that_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "mine").write_text("kept", encoding="utf-8")
    with pytest.raises(UserError, match="runs that no demo made"):
        demo.run_demo(tmp_path)
    assert (tmp_path / "transformer" / "mine").exists()


@pytest.mark.parametrize("name", ["cpu:x", "auto:1", "cuda:", "tpu"])
def test_a_device_that_is_none_is_told(name: str) -> None:
    with pytest.raises(UserError, match="unknown device"):
        pick_device(name)


def test_a_single_text_is_no_list_of_texts(trained: Run) -> None:
    translator = headway.load(trained("transformer"))
    for call in (translator.translate, translator.sample):
        with pytest.raises(UserError, match="a list of texts"):
            call("un chat")
    for pair in (translator.score, translator.evaluate):
        with pytest.raises(UserError, match="a list of texts"):
            pair(["un chat"], "x")  # as letters it would be a list of the same length
    with pytest.raises(UserError, match="width"):
        translator.translate(["un chat"], beam=0)


def test_a_corpus_mistake_names_the_recipes_key() -> None:
    part = {"corpus": "builtin:cldr", "lines": 5, "kinds": ["contry"]}
    table = {"source_language": "fr", "target_language": "en", "train": part}
    with pytest.raises(UserError, match=r"data\.train\.kinds: unknown kind"):
        load_part(DataSettings.model_validate(table), "train")
    table["source_language"] = "xx"
    with pytest.raises(UserError, match=r"data\.source_language"):
        load_part(DataSettings.model_validate(table), "train")
