"""GGUF files: the same model as transformers', and nothing but clean errors for broken ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_file import GGUF, STORAGES
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.runs.text_tokenizers import file_tokenizer

gguf = pytest.importorskip("gguf", reason="gguf is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V, D, F, H, G, K = 40, 64, 96, 4, 2, 16


NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def turned(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head as GGUF has them: first of one half, first of the other, second …"""
    return weight.reshape(heads, 2, K // 2, -1).transpose(1, 2).reshape(weight.shape)


def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=D,
        intermediate_size=F,
        num_hidden_layers=2,
        num_attention_heads=H,
        num_key_value_heads=G,
        max_position_embeddings=32,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 50_000.0},
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.2)
    return model


def write(
    path: Path,
    model: Any,
    *,
    factors: Tensor | None = None,
    kind: Any = None,
    said: Callable[[Any], None] = lambda writer: None,
) -> None:
    """The file of a Llama, as llama.cpp's converter would write it, with what is `said` besides."""
    writer = gguf.GGUFWriter(path, "llama")
    said(writer)
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(K)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL", "ab", "abc"])
    writer.add_token_merges(["a b", "ab c"])
    writer.add_token_types([1] * V)
    tensors = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for layer in range(config.num_hidden_layers):
        tensors |= {f"blk.{layer}.{b}": f"model.layers.{layer}.{a}" for a, b in NAMES.items()}
    for theirs, name in tensors.items():
        value = model.state_dict()[f"{name}.weight"]
        if theirs.endswith(("attn_q", "attn_k")):
            value = turned(value, H if theirs.endswith("q") else G)
        array = value.numpy()
        if kind is not None and array.ndim == 2:
            array = gguf.quants.quantize(array, kind)
            writer.add_tensor(f"{theirs}.weight", array, raw_dtype=kind)
        else:
            writer.add_tensor(f"{theirs}.weight", array)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 35]])


def test_a_llama_has_the_same_logits(tmp_path: Path) -> None:
    theirs = llama()
    write(tmp_path / "a.gguf", theirs)
    ours, settings = read_gguf_model(GGUF(tmp_path / "a.gguf"))
    torch.testing.assert_close(ours(IDS), theirs(IDS).logits, atol=1e-5, rtol=1e-5)
    assert (settings.norm_eps, settings.rotary_theta, settings.tie) == (1e-5, 50_000.0, "none")


def test_positions_that_a_file_stretches_are_llama_3s(tmp_path: Path) -> None:
    theirs = llama()
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 50_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = transformers.LlamaConfig(**(theirs.config.to_dict() | {"rope_parameters": scaling}))
    stretched = transformers.LlamaForCausalLM(config).eval()
    stretched.load_state_dict(theirs.state_dict())
    plain = 50_000.0 ** (-torch.arange(0, K, 2) / K)
    factors = plain / stretched.model.rotary_emb.inv_freq
    assert factors.max() > 30
    write(tmp_path / "a.gguf", theirs, factors=factors)
    ours, _ = read_gguf_model(GGUF(tmp_path / "a.gguf"))
    torch.testing.assert_close(ours(IDS), stretched(IDS).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "factors", [[1.0] * 7 + [2.0], [0.0] * 8, [-1.0] * 8, [torch.inf] * 8, [1.0]]
)
def test_other_factors_of_positions_are_one_message(tmp_path: Path, factors: list[float]) -> None:
    write(tmp_path / "a.gguf", llama(), factors=torch.tensor(factors))
    with pytest.raises(UserError, match="rope_freqs"):
        read_gguf_model(GGUF(tmp_path / "a.gguf"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (lambda writer: writer.add_rope_scaling_factor(4.0), r"rope\.scaling\.factor' is 4\.0"),
        (lambda writer: writer.add_causal_attention(False), r"attention\.causal' is False"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path: Path, said: Any, told: str) -> None:
    write(tmp_path / "a.gguf", llama(), said=said)
    with pytest.raises(UserError, match=told):
        read_gguf_model(GGUF(tmp_path / "a.gguf"))


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_each_storage_is_read_as_gguf_reads_it(tmp_path: Path, kind: str) -> None:
    theirs, type = llama(), getattr(gguf.GGMLQuantizationType, kind)
    write(tmp_path / "a.gguf", theirs, kind=type)
    file = GGUF(tmp_path / "a.gguf")
    wanted = theirs.state_dict()["model.layers.1.mlp.up_proj.weight"].numpy()
    wanted = gguf.quants.dequantize(gguf.quants.quantize(wanted, type), type)
    found = file.tensor("blk.1.ffn_up.weight")
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), wanted)
    ours, _ = read_gguf_model(file)
    assert (ours(IDS) - theirs(IDS).logits).abs().mean() < 1.0


def test_blocks_have_the_sizes_that_gguf_gives_them() -> None:
    for kind, storage in STORAGES.items():
        type = gguf.GGMLQuantizationType(kind)
        assert (storage.name, (storage.block, storage.n_bytes)) == (
            type.name,
            tuple(gguf.GGML_QUANT_SIZES[type]),
        )


def test_a_missing_tensor_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.gguf", llama())
    data = (
        (tmp_path / "a.gguf").read_bytes().replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight")
    )
    (tmp_path / "b.gguf").write_bytes(data)
    with pytest.raises(
        UserError, match=r"missing: blk\.1\.ffn_up\.weight; surplus: blk\.1\.ffn_uq"
    ):
        read_gguf_model(GGUF(tmp_path / "b.gguf"))


HEAD = b"GGUF" + struct.pack("<I", 3)


def header(n_tensors: int, n_values: int) -> bytes:
    return HEAD + struct.pack("<QQ", n_tensors, n_values)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def tensor(axes: list[int], *, n_axes: int | None = None, kind: int = 0, offset: int = 0) -> bytes:
    count = len(axes) if n_axes is None else n_axes
    return (
        text("a")
        + struct.pack("<I", count)
        + b"".join(struct.pack("<Q", axis) for axis in axes)
        + struct.pack("<IQ", kind, offset)
    )


ROOM = bytes(4096)
BROKEN = {
    "empty": b"",
    "no GGUF": b"GGML" + ROOM,
    "version 1": b"GGUF" + struct.pack("<IQQ", 1, 0, 0) + ROOM,
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + ROOM,
    "cut short": header(1, 0)[:10],
    "2^60 tensors": header(2**60, 0) + ROOM,
    "2^60 keys": header(0, 2**60) + ROOM,
    "a long key": header(0, 1) + struct.pack("<Q", 2**62) + ROOM,
    "a type that is none": header(0, 1) + text("k") + struct.pack("<I", 99) + ROOM,
    "2^60 texts": header(0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 2**60) + ROOM,
    "2^60 numbers": header(0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 2**60) + ROOM,
    "an array of arrays": header(0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1) + ROOM,
    "a key twice": header(0, 2) + 2 * (text("k") + struct.pack("<IB", 0, 1)) + ROOM,
    "alignment 0": header(0, 1) + text("general.alignment") + struct.pack("<II", 4, 0) + ROOM,
    "alignment 3": header(0, 1) + text("general.alignment") + struct.pack("<II", 4, 3) + ROOM,
    "no axes": header(1, 0) + tensor([]) + ROOM,
    "9 axes": header(1, 0) + tensor([1] * 9) + ROOM,
    "an axis of 0": header(1, 0) + tensor([0, 4]) + ROOM,
    "axes of 2^32 each": header(1, 0) + tensor([2**32, 2**32]) + ROOM,
    "a broken block": header(1, 0) + tensor([33], kind=8) + ROOM,
    "an unknown storage": header(1, 0) + tensor([32], kind=77) + ROOM,
    "an offset of 2^63": header(1, 0) + tensor([8], offset=2**63) + ROOM,
    "an odd offset": header(1, 0) + tensor([8], offset=5) + ROOM,
    "beyond the end": header(1, 0) + tensor([2048]) + ROOM,
    "a tensor twice": header(2, 0) + 2 * tensor([8]) + ROOM,
    "a key that is not UTF-8": header(0, 1) + struct.pack("<Q", 1) + b"\xff\x00\x00\x00\x00" + ROOM,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_message(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(BROKEN[name])
    with pytest.raises(UserError) as told:
        GGUF(path)
    assert told.value.where == str(path)


def test_what_is_whole_is_read(tmp_path: Path) -> None:
    data = header(1, 1) + text("k") + struct.pack("<IIQ", 9, 8, 2) + text("é") + text("")
    data += tensor([2, 3])
    data += bytes(-len(data) % 32) + struct.pack("<6f", *range(6))
    (tmp_path / "a.gguf").write_bytes(data)
    file = GGUF(tmp_path / "a.gguf")
    assert list(file.metadata["k"]) == ["é", ""]
    assert file.tensor("a").tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_mutations_give_clean_errors(tmp_path: Path) -> None:
    write(tmp_path / "a.gguf", llama(), kind=gguf.GGMLQuantizationType.Q8_0)
    whole = (tmp_path / "a.gguf").read_bytes()
    head = whole.index(b"blk.1.ffn_up") + 600
    draw, path, failures = random.Random(1), tmp_path / "b.gguf", 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 8))):
            place = draw.randrange(head)
            data[place] = draw.choice((0, 1, 127, 128, 255, data[place] ^ (1 << draw.randrange(8))))
        if draw.random() < 0.1:
            del data[draw.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            file = GGUF(path)
            read_gguf_model(file)
            file_tokenizer(file)
        except UserError:
            failures += 1
    assert failures > 100
