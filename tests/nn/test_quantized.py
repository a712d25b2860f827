"""Linear layers of 16, 8 and 4 bits: what is on the steps stays, and the rest is near."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.models.seq2seq import Transformer
from headway.nn import quantized
from headway.nn.quantized import GROUP, KINDS, Bits, Int4Linear, Int8Linear, quantize
from headway.settings.model import DecoderSettings, TransformerSettings

SIZES = {"d_model": 64, "d_feed_forward": 96, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2}
LLAMA: dict[str, Any] = {
    **SIZES,
    "max_length": 32,
    "norm": "rms",
    "feed_forward": "swiglu",
    "positions": "rotary",
    "order": "pre",
    "bias": False,
    "dropout": 0.0,
}
GPT: dict[str, Any] = {**LLAMA, "norm": "layer", "feed_forward": "gelu", "bias": True}
V = 50


@pytest.fixture
def draws() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def stepped(bits: Bits, rows: int, columns: int, draws: torch.Generator) -> Tensor:
    """Weights that lie on the steps of so many bits, each group or row on all of its range."""
    span = 8 if bits == "int4" else 127
    steps = torch.randint(-span, span, (rows, columns), generator=draws).float()
    steps.view(rows, -1, GROUP if bits == "int4" else columns)[..., :2] = torch.tensor(
        [-span, span - (bits == "int4")], dtype=torch.float32
    )
    return steps * 2.0 ** torch.randint(-6, -2, (rows, 1), generator=draws)


@pytest.mark.parametrize("bits", KINDS)
@pytest.mark.parametrize("rows", [64, 24, 1])
def test_weights_on_the_steps_are_kept(bits: Bits, rows: int, draws: torch.Generator) -> None:
    weight, bias = stepped(bits, rows, 96, draws), torch.randn(rows, generator=draws)
    layer = KINDS[bits](weight, bias)
    hidden = torch.randint(-4, 5, (2, 3, 96), generator=draws).float()  # that bfloat16 can hold
    wanted = hidden @ weight.T
    torch.testing.assert_close(layer(hidden), wanted.bfloat16() + bias, atol=1e-2, rtol=1e-2)
    assert layer.error == 0.0


@pytest.mark.parametrize("bits", KINDS)
def test_many_rows_are_as_few(bits: Bits, draws: torch.Generator) -> None:
    layer = KINDS[bits](torch.randn(80, 96, generator=draws))
    hidden = torch.randn(quantized.MANY_INT4 + 3, 96, generator=draws)
    few = torch.cat([layer(rows) for rows in hidden.split(quantized.MANY_INT8 - 1)]).float()
    assert float((layer(hidden).float() - few).norm() / few.norm()) < 0.005


@pytest.mark.parametrize(
    ("bits", "least", "most"),
    [("bfloat16", 1e-3, 3e-3), ("int8", 4e-3, 0.012), ("int4", 0.05, 0.09)],
)
def test_the_error_is_that_of_the_weights(
    bits: Bits, least: float, most: float, draws: torch.Generator
) -> None:
    weight = torch.randn(32, 128, generator=draws)
    layer = KINDS[bits](weight)
    own = layer(torch.eye(128)).float().T  # its weights, rounded once more on their way out
    found = float((own - weight).square().sum())
    assert layer.error == pytest.approx(found, rel=0.1)
    assert least < (layer.error / float(weight.square().sum())) ** 0.5 < most


def test_blocks_of_a_file_fall_on_the_same_steps(draws: torch.Generator) -> None:
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType.Q4_1
    weight = 0.1 * torch.randn(48, 128, generator=draws)
    blocks = gguf.quants.quantize(weight.numpy(), kind)
    read = torch.from_numpy(gguf.quants.dequantize(blocks, kind))
    again = Int4Linear(read)
    size = float(read.square().sum()) ** 0.5
    assert again.error**0.5 / size < 0.004  # bfloat16's, of scales that were float16
    assert Int4Linear(weight).error ** 0.5 / size > 0.05


def network(row: dict[str, Any]) -> Decoder:
    return build_decoder(DecoderSettings(**row), n_tokens=V, seed=1)


@pytest.mark.parametrize("row", [LLAMA, GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize("bits", KINDS)
@torch.inference_mode()
def test_joined_layers_are_the_layers(bits: Bits, row: dict[str, Any]) -> None:
    plain, rounded = network(row), network(row)
    quantize(rounded, bits)
    for name, layer in list(plain.named_modules()):
        if isinstance(layer, nn.Linear):  # each by itself
            owner, _, last = name.rpartition(".")
            bias = layer.bias.detach() if layer.bias is not None else None
            kind = Int8Linear if (name, bits) == ("head", "int4") else KINDS[bits]
            setattr(plain.get_submodule(owner), last, kind(layer.weight.detach(), bias))
    ids = torch.arange(20).view(2, 10)
    torch.testing.assert_close(rounded(ids), plain(ids), atol=0.02, rtol=0.02)


@pytest.mark.parametrize("row", [LLAMA, GPT], ids=["llama", "gpt"])
@torch.inference_mode()
def test_a_rounded_network_is_near_and_steps_as_it_reads(row: dict[str, Any]) -> None:
    plain, ids = network(row), torch.arange(20).view(2, 10)
    wanted, far = plain(ids), {}
    for bits in KINDS:
        rounded = copy.deepcopy(plain)
        quantize(rounded, bits)
        whole = rounded(ids)
        far[bits] = float((whole - wanted).norm() / wanted.norm())
        state = rounded.start(ids[:, :6], torch.tensor([6, 6]))
        for place in range(6, 10):
            logits, state = rounded.step(ids[:, place : place + 1], state)
            torch.testing.assert_close(logits[:, 0], whole[:, place], atol=0.03, rtol=0.03)
    assert far["int8"] < 0.02
    assert far["bfloat16"] < far["int8"] < far["int4"] < 0.2


def test_what_is_told_is_what_there_is() -> None:
    rounded = network(LLAMA)
    before = sum(layer.weight.nbytes for layer in rounded.modules() if isinstance(layer, nn.Linear))
    told = quantize(rounded, "int8")
    assert (told.layers, told.before) == (7 * LLAMA["n_layers"] + 1, before)
    assert told.bytes < 0.3 * before
    assert quantize(network(LLAMA), "int4").bytes < told.bytes
    assert quantize(rounded, "int8").layers == 0


@pytest.mark.parametrize("bits", KINDS)
@pytest.mark.parametrize(
    "odd", [{"d_model": 40, "d_head": 16}, {"d_feed_forward": 100}, {"d_head": 6}]
)
@torch.inference_mode()
def test_any_width_will_do(bits: Bits, odd: dict[str, Any]) -> None:
    plain = network({**LLAMA, **odd})
    rounded = copy.deepcopy(plain)
    assert quantize(rounded, bits).layers == 7 * LLAMA["n_layers"] + 1
    for ids in (torch.arange(10)[None], torch.arange(40).view(2, 20)):  # few and many
        wanted = plain(ids)
        assert float((rounded(ids) - wanted).norm() / wanted.norm()) < (
            0.2 if bits == "int4" else 0.02
        )


@torch.inference_mode()
def test_attention_to_a_memory_is_rounded_too() -> None:
    sizes = {"d_model": 32, "d_feed_forward": 64, "n_heads": 2, "max_length": 16, "dropout": 0.0}
    settings = TransformerSettings(n_encoder_layers=1, n_decoder_layers=1, **sizes)
    torch.manual_seed(1)
    plain = Transformer(settings, V, V).eval()
    rounded = copy.deepcopy(plain)
    quantize(rounded, "int8")
    assert not any(isinstance(layer, nn.Linear) for layer in rounded.modules())
    given: tuple[Any, ...] = (torch.arange(12).view(2, 6), torch.tensor([6, 4]))
    logits = [
        each.step(torch.ones(2, 3).long(), each.start(*given))[0] for each in (plain, rounded)
    ]
    assert float((logits[0] - logits[1]).norm() / logits[0].norm()) < 0.05
