"""Runs through torch.compile, its own compiler left out: what the recipe says, and going on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.checkpoint.run import RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.nn import stack
from headway.nn.stack import Stack

STEPS = {"train.steps": 6, "train.save_every": 3, "train.evaluate_every": 6}


@pytest.fixture
def settings(toy_recipe: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    recipe = toy_recipe("transformer")
    recipe["model"] |= {"d_model": 16, "d_feed_forward": 32, "dropout": 0.1}
    recipe["train"] |= {"dtype": "float32", "batch_tokens": 120}
    return recipe


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    torch.compiler.reset()
    found: list[int] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        found.append(len(graph.graph.nodes))
        return graph.forward

    compiled = torch.compile(Stack._through, fullgraph=True, backend=backend)
    monkeypatch.setattr(stack, "_compiled", lambda: compiled)
    return found


def test_a_compiled_run_goes_on_exactly_and_compiled(
    settings: dict[str, Any], graphs: list[int], tmp_path: Path
) -> None:
    whole, broken, other = (tmp_path / name for name in ("whole", "broken", "other"))
    headway.train(settings, out=whole, **STEPS | {"train.compile": True})
    assert RunFolder(whole).recipe()["train"]["compile"] is True
    shutil.copytree(whole, broken)
    shutil.rmtree(broken / "checkpoints" / "step-6")
    shutil.copytree(broken, other)
    for run, recipe in ((broken, None), (other, settings)):  # the user's own says nothing of it
        graphs.clear()
        torch.compiler.reset()
        headway.train(recipe, out=run, resume=True, **STEPS)
        assert graphs
        assert RunFolder(run).recipe()["train"]["compile"] is True
        records = RunFolder(run).metrics.read()
        assert [each for each in records if each["kind"] == "resume"] == [
            {"kind": "resume", "step": 3}
        ]
        ends = [newest_checkpoint(path / "checkpoints")[0] for path in (whole, run)]
        one, two = ({**end.weights(), **end.optimizer()} for end in ends if end is not None)
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_where_it_fails_a_run_goes_on_without_it(
    settings: dict[str, Any],
    graphs: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    headway.train(settings, out=run, **STEPS | {"train.compile": True, "train.steps": 3})

    def backend(*_: object) -> Callable[..., Any]:
        raise RuntimeError("there is no compiler")

    broken = torch.compile(Stack._through, fullgraph=True, backend=backend)
    monkeypatch.setattr(stack, "_compiled", lambda: broken)
    torch.compiler.reset()
    capsys.readouterr()
    headway.train(None, out=run, resume=True, **{"train.steps": 5})
    said = capsys.readouterr().err
    assert "torch.compile fails here (there is no compiler)" in said
    assert "train.compile: false from here on; it was true" in said
    assert RunFolder(run).recipe()["train"]["compile"] is False


def test_on_a_processor_auto_compiles_nothing(
    settings: dict[str, Any], graphs: list[int], tmp_path: Path
) -> None:
    headway.train(settings, out=tmp_path / "run", **STEPS)
    assert RunFolder(tmp_path / "run").recipe()["train"]["compile"] is False
    assert not graphs
