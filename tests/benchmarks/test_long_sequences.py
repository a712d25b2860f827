"""What long-sequences compares runs."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize("name", ["reference", "fused", "blockwise", "banded", "linformer"])
def test_a_head_is_measured(name: str) -> None:
    case = importlib.import_module("long_sequences")
    row = case.measured(case.plain, name, 512)
    assert row["seconds"] > 0
    assert row["bytes"] > 512 * 64 * 4  # the result alone


@pytest.mark.parametrize("name", ["headway", "transformers"])
def test_a_layer_is_measured(name: str) -> None:
    if name == "transformers":
        pytest.importorskip(name, reason="transformers is not installed")
    case = importlib.import_module("long_sequences")
    assert case.measured(case.layer, name, 512)["bytes"] > 512 * 64 * 4


def test_exponents_are_slopes_from_where_lengths_count() -> None:
    case = importlib.import_module("long_sequences")
    rows = [{"n": n, "bytes": max(n**2, 1e7)} for n in (512, 1024)]
    rows += [{"n": n, "bytes": n**1.5} for n in (2048, 4096, 8192)]
    assert case.exponent(rows, "bytes") == 1.5
