"""What train-torch compares computes the same: loss, gradients and steps, on toy pairs."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from headway.batches.pairs import EncodedPairs, EncodedSide
from headway.settings.recipe import load_recipe

N_IDS, PAD, BOS, EOS = 40, 0, 1, 2
MODEL = {
    "kind": "transformer",
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "d_model": 16,
    "d_feed_forward": 24,
    "n_heads": 4,
    "dropout": 0.0,
}


def side(draw: np.random.Generator) -> EncodedSide:
    lengths = draw.integers(1, 9, 30)
    return EncodedSide.of([[*draw.integers(3, N_IDS, n).tolist(), EOS] for n in lengths])


def test_both_have_the_same_losses_step_by_step() -> None:
    multi30k, case = (importlib.import_module(name) for name in ("multi30k", "train_torch"))
    draw = np.random.default_rng(0)
    tokenizer = type("Ids", (), {"pad": PAD, "bos": BOS, "__len__": lambda self: N_IDS})()
    data = SimpleNamespace(
        train=EncodedPairs(side(draw), side(draw)),
        tokenizers=SimpleNamespace(source=tokenizer, target=tokenizer),
    )
    settings = load_recipe(
        {
            "data": {
                "source_language": "en",
                "target_language": "fr",
                "train": {"source": "unread.en", "target": "unread.fr"},
            },
            "tokenizer": {},
            "model": MODEL,
            "train": {"steps": 5, "batch_tokens": 64, "warmup": 2, "learning_rate": 1e-2},
        }
    )
    ours, theirs = case.losses(multi30k.Setting(settings, data))
    assert len(ours) == case.CHECKED
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert len({round(loss, 3) for loss in ours}) == case.CHECKED


def test_without_the_data_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    run = importlib.import_module("run")
    (row,) = run.measure("train-torch", 1)
    assert row["case"] == "train-torch"
    assert "HEADWAY_DATA" in row["reason"]
    assert row["reason"] in run.line(row)
