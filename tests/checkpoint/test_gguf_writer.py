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


SCALED = {"rotary_theta": 500_000.0}


@pytest.mark.parametrize("storage", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("changed", [{}, {"tie": "none"}, {"d_head": 32}, {"stretched": True}])
def test_what_is_written_is_read(tmp_path: Path, storage: Any, changed: dict[str, Any]) -> None:
    table = LLAMA | changed
    if table.pop("stretched", False):
        table |= SCALED | {"rotary_scaling": RotaryScaling(factor=8.0, original_max_length=8192)}
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
    for key in ("scale_embedding", "norm_embedding"):
        changed = DecoderSettings(**LLAMA | {key: True})
        with pytest.raises(UserError, match=f"this one has {key} = True"):
            write_gguf(tmp_path / "a", build_decoder(changed, n_tokens=9), changed, {})
    for key, value in {"reach": (8, 0), "residual": False, "score": "dot"}.items():
        changed = DecoderSettings(**LLAMA | {key: value})
        with pytest.raises(UserError, match=f"this one has {key} = "):
            write_gguf(tmp_path / "a", build_decoder(changed, n_tokens=9), changed, {})
    biased = DecoderSettings(**LLAMA | {"attention_bias": True})
    with pytest.raises(UserError, match="this one has attention_bias = True"):
        write_gguf(tmp_path / "a", build_decoder(biased, n_tokens=9), biased, {})
    odd = DecoderSettings(**LLAMA | {"d_feed_forward": 100})
    with pytest.raises(UserError, match="no multiple of it"):
        write_gguf(tmp_path / "a", build_decoder(odd, n_tokens=9), odd, {}, storage="Q8_0")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("factor", "length"), [(32.0, 8192), (3.3, 16), (1.5, 4096)])
def test_a_scaling_that_a_file_can_say_is_read_again(
    tmp_path: Path, factor: float, length: int
) -> None:
    scaling = RotaryScaling(factor=factor, original_max_length=length)
    settings = DecoderSettings(**LLAMA | SCALED | {"rotary_scaling": scaling})
    model = build_decoder(settings, n_tokens=40, seed=2)
    write_gguf(tmp_path / "a.gguf", model, settings, TOKENIZER, storage="F32")
    again, found = read_gguf_model(GGUF(tmp_path / "a.gguf"))
    assert found.rotary_scaling == scaling
    assert torch.equal(again(IDS), model(IDS))


@pytest.mark.parametrize(
    "changed",
    [
        {"low_frequency": 2.0},
        {"high_frequency": 8.0},
        {"original_max_length": 10**8},  # no wave is as long, so that nothing turns 8 times slower
    ],
)
def test_a_scaling_that_a_file_cannot_say_is_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    scaling = RotaryScaling(**{"factor": 8.0, "original_max_length": 8192} | changed)
    settings = DecoderSettings(**LLAMA | SCALED | {"rotary_scaling": scaling})
    model = build_decoder(settings, n_tokens=40, seed=2)
    with pytest.raises(UserError, match="GGUF files hold Llama 3's scaling"):
        write_gguf(tmp_path / "a.gguf", model, settings, TOKENIZER)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("storage", "largest"), [("F16", 65504.0), ("Q8_0", 127 * 65504.0)])
def test_numbers_beyond_a_storage_are_refused(tmp_path: Path, storage: Any, largest: float) -> None:
    settings = DecoderSettings(**LLAMA)
    model = build_decoder(settings, n_tokens=40, seed=2)
    weight = model.get_parameter("stack.layers.1.feed_forward.up.weight").detach()
    weight[2, 3] = -largest
    write_gguf(tmp_path / "a.gguf", model, settings, TOKENIZER, storage=storage)
    found, _ = read_gguf_model(GGUF(tmp_path / "a.gguf"))
    assert all(bool(each.isfinite().all()) for each in found.parameters())
    weight[2, 3] = -2 * largest
    told = r"'blk\.1\.ffn_up\.weight' has numbers beyond .*write --type f32"
    with pytest.raises(UserError, match=told):
        write_gguf(tmp_path / "b.gguf", model, settings, TOKENIZER, storage=storage)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]
    write_gguf(tmp_path / "b.gguf", model, settings, TOKENIZER, storage="F32")
