"""The probe of dtypes: measured once a machine and model, remembered, leaving no trace."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.training import probe
from headway.training.loop import NotFinite, Trainer
from headway.training.probe import faster_dtype

Make = Callable[..., Trainer]
Weights = Callable[[Trainer], dict[str, Tensor]]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headway" / "dtype.json"


class Stopwatch:
    """In place of a measurement: the seconds that each dtype is to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = {"float32": 2.0, "bfloat16": 1.0}
        self.asked: list[str] = []
        monkeypatch.setattr(probe, "_seconds", self)
        monkeypatch.setattr(probe, "product_rate", lambda *_: 1.0)

    def __call__(self, trainer: Trainer, dtype: str) -> float:
        self.asked.append(dtype)
        return self.seconds[dtype]


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    return Stopwatch(monkeypatch)


@pytest.mark.parametrize("faster", ["float32", "bfloat16"])
def test_the_faster_one_is_taken_and_remembered(
    make: Make, cache: Path, stopwatch: Stopwatch, faster: str
) -> None:
    stopwatch.seconds[faster] = 0.5
    assert faster_dtype(make()) == faster
    assert sorted(stopwatch.asked) == ["bfloat16", "float32"]
    assert list(json.loads(cache.read_text(encoding="utf-8")).values()) == [faster]
    # what the machine would say now does not matter any more
    stopwatch.seconds = {"float32": random.random(), "bfloat16": random.random()}
    assert faster_dtype(make()) == faster
    assert len(stopwatch.asked) == 2


@pytest.mark.parametrize(("rate", "trials"), [(0.4, []), (0.6, ["float32", "bfloat16"])])
def test_where_products_in_bfloat16_are_slow_it_is_not_tried(
    make: Make,
    cache: Path,
    stopwatch: Stopwatch,
    monkeypatch: pytest.MonkeyPatch,
    rate: float,
    trials: list[str],
) -> None:
    """Processors without instructions for it take a hundred times as long: minutes for a trial."""
    rates = {torch.float32: 1.0, torch.bfloat16: rate}
    monkeypatch.setattr(probe, "product_rate", lambda side, dtype, *_: rates[dtype])
    assert faster_dtype(make()) == ("bfloat16" if trials else "float32")
    assert stopwatch.asked == trials
    assert cache.exists()


def test_another_training_is_measured_for_itself(
    make: Make, cache: Path, stopwatch: Stopwatch
) -> None:
    trainings = [make(), make("recurrent"), make(batch_tokens=90), make(optimizer="muon")]
    trainings += [make(checkpoint_activations=True), make("transformer-plain")]
    for count, trainer in enumerate(trainings, start=1):
        faster_dtype(trainer)
        assert len(stopwatch.asked) == 2 * count
        assert len(json.loads(cache.read_text(encoding="utf-8"))) == count


def test_a_dtype_that_overflows_is_never_the_faster(
    make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a real measurement, in which bfloat16 would win by taking no time at all."""
    monkeypatch.setattr(probe, "product_rate", lambda *_: 1.0)
    real = Trainer.advance

    def advance(self: Trainer, batches: Any) -> None:
        if self.settings.dtype == "bfloat16":
            raise NotFinite("the loss is not finite")
        real(self, batches)

    monkeypatch.setattr(Trainer, "advance", advance)
    assert faster_dtype(make()) == "float32"


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"torn', "null", "\x00"])
def test_a_broken_cache_is_measured_anew(
    make: Make, cache: Path, stopwatch: Stopwatch, content: str
) -> None:
    cache.parent.mkdir()
    cache.write_text(content, encoding="utf-8")
    assert faster_dtype(make()) == "bfloat16"
    assert list(json.loads(cache.read_text(encoding="utf-8")).values()) == ["bfloat16"]


def test_an_answer_that_is_none_is_measured_anew(
    make: Make, cache: Path, stopwatch: Stopwatch
) -> None:
    faster_dtype(make())
    answers = json.loads(cache.read_text(encoding="utf-8"))
    for wrong in ("float16", 3, None):
        cache.write_text(json.dumps(dict.fromkeys(answers, wrong)), encoding="utf-8")
        assert faster_dtype(make()) == "bfloat16"


def test_a_cache_that_cannot_be_written_is_no_error(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopwatch: Stopwatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    for count in (1, 2):
        assert faster_dtype(make()) == "bfloat16"
        assert len(stopwatch.asked) == 2 * count
    assert file.read_bytes() == b"in the way"


def test_without_a_cache_folder_named_it_is_the_users(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopwatch: Stopwatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", value)
        faster_dtype(make())
    assert (tmp_path / ".cache" / "headway" / "dtype.json").exists()
    assert len(stopwatch.asked) == 2


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_the_trainer_is_left_as_it_was(
    make: Make, cache: Path, weights_of: Weights, model: str
) -> None:
    """By a real measurement; and what is trained afterwards is what would have been."""
    probed, plain = make(model), make(model)
    for trainer in (probed, plain):
        trainer.advance(trainer.batches.after(0, 0))
    before, table = weights_of(probed), probed.state.to_table()
    assert faster_dtype(probed) in ("float32", "bfloat16")
    after = weights_of(probed)
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert probed.state.to_table() == table
    assert all(weight.grad is None for weight in probed.weights)
    for trainer in (probed, plain):
        trainer.advance(trainer.batches.after(0, 1))
    one, other = weights_of(probed), weights_of(plain)
    assert all(torch.equal(one[name], value) for name, value in other.items())
    assert cache.exists()
