"""What train-torch compares computes the same: loss, gradients and steps, on toy pairs."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

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


def toy_setting() -> Any:
    """What the cases begin from, with toy pairs in place of Multi30k."""
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
    return importlib.import_module("multi30k").Setting(settings, data)


def test_both_have_the_same_losses_step_by_step() -> None:
    case = importlib.import_module("train_torch")
    ours, theirs = case.losses(toy_setting())
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


@pytest.mark.parametrize(
    ("float32", "dtypes"),
    [(50.0, ["bfloat16", "float32", "bfloat16"]), (90.0, ["float32", "float32"])],
)
def test_float32_as_it_is_has_a_row_of_its_own(
    float32: float, dtypes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside that of the better dtype, which comes first."""
    case, contest = (importlib.import_module(name) for name in ("train_torch", "contest"))
    rates = {"ours": 200.0, "float32": float32, "float32+kept": float32}

    def turns(commands: dict[str, list[str]], *, rounds: int) -> dict[str, list[Any]]:
        facts = {"cpu_seconds": 1.0, "elsewhere": 0.0, "peak_mib": 9.0}
        told = {"dtype": "float32", "loss": 1.0, "limit": 800.0}
        return {
            name: [contest.Turn(rates.get(name, 80.0), 1.0, **facts, told=told)] * rounds
            for name in commands
        }

    monkeypatch.setattr(case, "contest", turns)
    rows = case._speed("train-torch", "", 2)
    speeds = [row for row in rows if "ratio_range" in row]
    ways = ["as it is"] * (len(dtypes) - 1) + ["with pages kept"]
    named = [f"{case.PEER}, {dtype} {way}" for dtype, way in zip(dtypes, ways, strict=True)]
    assert [row["peer"] for row in speeds] == named
    assert [row["peer"] for row in rows[1::2]] == named  # of each the memory follows
    plain = next(row for row in speeds if "float32 as it is" in row["peer"])
    assert plain["ratio"] == round(200.0 / float32, 3)
    assert all(row["limit_share"] == 0.25 for row in speeds)


def test_the_limit_counts_the_tokens_of_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, setting = importlib.import_module("limits"), toy_setting()
    monkeypatch.setattr(limits, "matrix_rate", lambda *_: 1e9)
    data, batches = setting.data.train, setting.order.epoch(0)
    means = [float(each.lengths.mean()) for each in (data.source, data.target)]
    assert means[0] != means[1]
    wanted = 1e9 / limits.pair_flops(setting.settings.model, N_IDS, *means)
    assert setting.limit(batches, "float32") == pytest.approx(wanted)
