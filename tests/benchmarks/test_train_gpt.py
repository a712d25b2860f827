"""The conditions of train-gpt: each peer is built once, and no row says what was not measured."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

TINY = {"n_layers": 1, "n_heads": 2, "d_model": 8}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = importlib.import_module("gpt_peers")
    for name, value in {"SIZES": TINY, "LENGTH": 8, "ROWS": 2}.items():
        monkeypatch.setattr(found, name, value)
    return found


def given(n: int = 4) -> Any:
    draw = torch.Generator().manual_seed(1)
    ids = [torch.randint(256, (2, 8), generator=draw) for _ in range(n)]
    return SimpleNamespace(dropout=0.0, tensors=lambda n: [(each, each) for each in ids[:n]])


def test_the_trainer_goes_on_from_turn_to_turn(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it builds, and the first moments of its Adam, are no part of a turn."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    made: list[Any] = []
    plain = transformers.Trainer.create_optimizer

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        made.append(self)
        return plain(self, *given, **named)

    monkeypatch.setattr(transformers.Trainer, "create_optimizer", counted)
    work = peers.trainer(given(), "float32")
    losses = []
    for turn in range(1, 4):
        amount, told = work()
        losses.append(told["loss"])
        assert amount == peers.BATCHES * 2 * 8
        assert made[0].state.global_step == turn * peers.BATCHES
    assert len(made) == 1
    assert losses == sorted(losses, reverse=True)


def test_a_training_that_ends_is_told(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def broken(self: Any) -> None:
        raise ValueError("it broke")

    monkeypatch.setattr(transformers.Trainer, "train", broken)
    with pytest.raises(ValueError, match="it broke"):
        peers.trainer(given(), "float32")()


def test_each_peer_is_measured_with_pages_kept_and_only_with_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, contest = (importlib.import_module(name) for name in ("train_gpt", "contest"))
    asked: list[list[str]] = []

    def turns(commands: Mapping[str, Any], *, rounds: int) -> dict[str, list[Any]]:
        asked.append(list(commands))
        facts = {"cpu_seconds": 1.0, "elsewhere": 0.0, "peak_mib": 9.0}
        told = {"dtype": "float32", "loss": 1.0, "limit": 2.0}
        return {name: [contest.Turn(1.0, 1.0, **facts, told=told)] * rounds for name in commands}

    monkeypatch.setattr(case, "contest", turns)
    monkeypatch.setattr(case, "absent", dict)
    monkeypatch.setattr(case, "once", lambda _: {"ours": [1.0], "theirs": [1.0]})
    rows = case.rows(2)
    dropped = [row for row in rows if row["case"].endswith("dropout-0.2")]
    assert [row for row in dropped if "litgpt" in row["peer"]] == [
        {"case": "train-gpt-dropout-0.2", "peer": "litgpt", "reason": "its model has no dropout"}
    ]
    for peer in ("nanoGPT", "transformers Trainer"):
        said = {row["peer"] for row in dropped if row["peer"].startswith(peer)}
        assert said == {f"{peer}, float32 {how}" for how in ("as it is", "with pages kept")}
    assert len(asked) == 5
    assert all(names[0] == "ours" and len(names) == 5 for names in asked)
    assert rows[-1]["agrees"]
    shares = [row["limit_share"] for row in rows if "ratio_range" in row]
    assert shares == [0.5] * 10


def test_the_rate_of_a_gpu_is_that_of_its_middle_round(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("gpu_run", benchmarks / "gpu" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    times = iter([0.0, 0.0, 0.0, 1.0, 0.0, 5.0, 0.0, 3.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    assert module.timed(lambda: None, torch.device("cpu"), rounds=3) == 3.0
