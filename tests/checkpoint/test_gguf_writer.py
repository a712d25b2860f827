"""A Llama written as GGUF is the same when it is read, by us and by its own library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.models.build import build_decoder
from headway.settings.model import DecoderSettings, RotaryScaling

gguf = pytest.importorskip("gguf", reason="gguf is not installed")

LLAMA: dict[str, Any] = {
    "n_layers": 2,
    "d_model": 64,
    "d_feed_forward": 96,
    "n_heads": 4,
    "n_kv_heads": 2,
    "bias": False,
    "norm": "rms",
    "order": "pre",
    "feed_forward": "swiglu",
    "positions": "rotary",
    "dropout": 0.0,
    "max_length": 64,
}
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
TOKENIZER = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "é"]}


@pytest.mark.parametrize("storage", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("changed", [{}, {"tie": "none"}, {"d_head": 32}, {"stretched": True}])
def test_what_is_written_is_read(tmp_path: Path, storage: Any, changed: dict[str, Any]) -> None:
    table = LLAMA | changed
    if table.pop("stretched", False):
        table["rotary_scaling"] = RotaryScaling(factor=8.0, original_max_length=8192)
        table["rotary_theta"] = 500_000.0
    settings = DecoderSettings(**table)
    model = build_decoder(settings, n_tokens=40, seed=2)
    write_gguf(tmp_path / "a.gguf", model, settings, TOKENIZER, storage=storage)
    file = GGUF(tmp_path / "a.gguf")
    again, found = read_gguf_model(file)
    assert list(file.metadata["tokenizer.ggml.tokens"]) == ["a", "é"]
    same = found.model_copy(update={"n_kv_heads": 2, "d_head": settings.d_head})
    assert same == settings
    if storage == "F32":
        assert torch.equal(again(IDS), model(IDS))
    else:
        torch.testing.assert_close(again(IDS), model(IDS), atol=0.05, rtol=0)
        assert not torch.equal(again(IDS), model(IDS))
    assert len(gguf.GGUFReader(tmp_path / "a.gguf").tensors) == len(file.tensors)


def test_what_is_no_llama_is_refused(tmp_path: Path) -> None:
    settings = DecoderSettings(**LLAMA | {"norm": "layer", "positions": "learned"})
    with pytest.raises(UserError, match="this one has norm = 'layer', positions = 'learned'"):
        write_gguf(tmp_path / "a", build_decoder(settings, n_tokens=9), settings, {})
    odd = DecoderSettings(**LLAMA | {"d_feed_forward": 100})
    with pytest.raises(UserError, match="no multiple of it"):
        write_gguf(tmp_path / "a", build_decoder(odd, n_tokens=9), odd, {}, storage="Q8_0")
    assert not list(tmp_path.iterdir())
