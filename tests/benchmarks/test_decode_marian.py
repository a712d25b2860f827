"""Marian and CTranslate2 with our weights are our function, and find what our search finds."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from headway.models.build import build
from headway.settings.model import TransformerSettings

SYMBOLS = {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
N_IDS = 30


def test_both_translate_alike(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    import torch
    from safetensors.torch import save_file

    case = importlib.import_module("decode_marian")
    settings = TransformerSettings(
        d_model=16, d_feed_forward=24, n_heads=4, n_encoder_layers=2, n_decoder_layers=2
    )
    model = build(settings, n_source=N_IDS, n_target=N_IDS)
    torch.manual_seed(0)
    weights = {
        name: weight.detach() + 0.1 * torch.randn_like(weight)
        for name, weight in model.named_parameters()
    }
    # tokens unlike each other, so that what follows, the end too, depends on what came before
    weights["source_embedding.tokens.weight"].normal_()
    save_file(weights, tmp_path / "weights.safetensors")
    draw = np.random.default_rng(0)
    facts = {
        "model": settings.model_dump(mode="json"),
        "n_ids": N_IDS,
        "symbols": SYMBOLS,
        "sources": [[*draw.integers(4, N_IDS, n).tolist(), 3] for n in draw.integers(1, 9, 20)],
    }
    (tmp_path / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    told = case.check(case.Given(tmp_path))
    assert told["logits"] < 1e-4
    assert told["marian"]["equal"] + told["marian"]["cut"] == 20
    assert told["marian"]["equal"] > 10
    assert told["ctranslate2"]["equal"] > 0
    assert min(told["ctranslate2"]["gaps"], default=0.0) > -case.TOLERANCE  # ours are the likelier
    assert told["equal_at_all_sizes"] == 20
    assert [row["agrees"] for row in case._agreement(told)] == [True, True, True]
    assert told["ended"] > 0
    assert 1 < told["mean_length"] < case.LIMIT
