from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.checkpoint.weights import write_tensors
from headway.runs.info import describe

Run = Callable[[str], Path]


@pytest.fixture
def copy(trained: Run, tmp_path: Path) -> Path:
    """A run to break."""
    return shutil.copytree(trained("attention"), tmp_path / "run")


def test_a_run_without_evaluation_opens_with_its_newest_checkpoint(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.warns(UserWarning, match="has not been evaluated yet: weights of step 150"):
        translator = headway.load(copy)
    found, _ = newest_checkpoint(copy / "checkpoints")
    assert found is not None
    weights, own = found.weights(), translator.model.state_dict()
    assert all(torch.equal(own[name].cpu(), value) for name, value in weights.items())


def test_a_run_without_any_weights(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(UserError, match=r"no model.safetensors yet.*--resume"):
        headway.load(copy)
    assert "parameters" in describe(copy)


def cut_weights(run: Path) -> None:
    path = run / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def lose_a_weight(run: Path) -> None:
    weights = RunFolder(run).weights()
    del weights["head.weight"]
    write_tensors(run / "model.safetensors", weights)


def reshape_a_weight(run: Path) -> None:
    weights = RunFolder(run).weights()
    weights["head.weight"] = weights["head.weight"].T.contiguous()
    write_tensors(run / "model.safetensors", weights)


def other_format(run: Path) -> None:
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    (run / "config.json").write_text(json.dumps(config | {"format": 99}), encoding="utf-8")


def change_tokenizer(run: Path) -> None:
    path = run / "tokenizer.source.json"
    path.write_text(path.read_text(encoding="utf-8").replace("chat", "chut"), encoding="utf-8")


def lose_recipe(run: Path) -> None:
    (run / "recipe.toml").unlink()


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (cut_weights, r"model.safetensors: no weights to read: .*cut short"),
        (lose_a_weight, "lack 'head.weight'"),
        (reshape_a_weight, "'head.weight' has the shape"),
        (other_format, r"config.json: a run of format 99, this version reads format 1"),
        (change_tokenizer, r"tokenizer.source.json: not the tokeniser that this model"),
        (lose_recipe, r"not a run: there is no recipe.toml"),
    ],
)
def test_damage_is_told(damage: Callable[[Path], Any], what: str, copy: Path) -> None:
    damage(copy)
    with pytest.raises(UserError, match=what):
        headway.load(copy)


def test_what_is_no_run(tmp_path: Path, trained: Run) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        headway.load(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"not a run: there is no config.json"):
        headway.load(tmp_path)
    with pytest.raises(UserError, match="unknown device 'gpu'"):
        headway.load(trained("attention"), device="gpu")


def test_info_tells_what_a_run_is(trained: Run) -> None:
    facts = describe(trained("attention"))
    assert facts["languages"] == "fr → en"
    assert facts["trained"] == "150 of 150 steps in float32"
    assert "score additive" in facts["model"]
    assert facts["vocabulary"] == "19 source, 19 target ids"
    assert facts["checkpoint"].endswith("step-150")
    translator = headway.load(trained("attention"))
    count = sum(weight.numel() for weight in translator.model.parameters())
    assert facts["parameters"] == f"{count:,}"
    assert "exact_match" in facts["test"]
    assert "broken" not in facts


def test_info_counts_tied_weights_once(trained: Run) -> None:
    translator = headway.load(trained("transformer"))
    count = sum(weight.numel() for weight in translator.model.parameters())
    assert describe(trained("transformer"))["parameters"] == f"{count:,}"


def test_info_tells_of_a_broken_checkpoint(copy: Path) -> None:
    (copy / "checkpoints/step-150/complete.json").unlink()
    facts = describe(copy)
    assert "there is no complete.json" in facts["broken"]
    assert facts["checkpoint"].endswith("step-100")
