"""The floor of a step is counted on what a step of one token goes through."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn

from headway.runs.language_model import LanguageModel


def test_a_step_is_all_products_of_one_token(
    byte_model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = importlib.import_module("decode_floor")
    monkeypatch.setattr(case, "ROUNDS", 1)
    step = case.products(byte_model)
    layers = [each for each in byte_model.model.modules() if isinstance(each, nn.Linear)]
    assert {layer for layer, _ in step} == set(layers)
    assert len(step) == len(layers)
    assert step[-1][0].out_features == 256
    found = case.floor(byte_model, "float32", 1e9)
    assert found["bytes_read"] == 4 * sum(
        weight.numel() for layer in layers for weight in layer.parameters()
    )
    assert found["memory_ms"] == pytest.approx(found["bytes_read"] / 1e6, abs=1e-3)
    assert found["operations"] > len(step)


def test_operations_are_counted() -> None:
    case = importlib.import_module("decode_floor")
    with case.Counter() as counter:
        torch.ones(2) + torch.ones(2)
    assert counter.n == 3
