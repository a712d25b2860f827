"""What is counted from settings alone is what torch builds, multiplies and allocates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from headway.batches.masked import MaskedBatch
from headway.batches.packed import PackedBatch
from headway.batches.pairs import PairBatch
from headway.models.build import build, build_decoder, build_masked
from headway.models.decoder import Decoder
from headway.models.encoder import MaskedLanguageModel
from headway.models.seq2seq import Transformer
from headway.nn import attend
from headway.nn.dropout import Noise
from headway.settings.base import parse
from headway.settings.counting import (
    Countable,
    count_parameters,
    forward_flops,
    generating_flops,
    training_flops,
)
from headway.settings.memory import LOSS_ROWS, Batch, cache_bytes, training_bytes
from headway.settings.model import DecoderSettings, EncoderSettings, TransformerSettings
from headway.settings.presets import PRESETS, VOCABULARIES
from headway.training.losses import CHUNK
from headway.training.objectives import Objective, PredictMasked, PredictNext, PredictTarget
from headway.training.utilisation import Operations

KINDS: dict[str, type[Countable]] = {
    "decoder": DecoderSettings,
    "encoder": EncoderSettings,
    "transformer": TransformerSettings,
}
SMALL = {"d_model": 64, "d_feed_forward": 176, "n_heads": 4, "max_length": 512, "dropout": 0.0}
DEPTH: dict[str, dict[str, int]] = {
    "decoder": {"n_layers": 3},
    "encoder": {"n_layers": 3},
    "transformer": {"n_encoder_layers": 2, "n_decoder_layers": 2},
}
LLAMA = {
    "norm": "rms",
    "order": "pre",
    "feed_forward": "swiglu",
    "positions": "rotary",
    "bias": False,
    "n_kv_heads": 2,
}
# a window of which texts of these tests are long enough for a band, and one for which they are not
WINDOWS = LLAMA | {"reach": [40, 0, 8]}
LONGFORMER = {"reach": [8], "n_global": 2, "dropout": 0.1, "attention_dropout": 0.1}
LINFORMER = {"n_keys": 16, "pooler": False}
GPT = {"order": "pre", "feed_forward": "gelu_tanh", "positions": "learned", "dropout": 0.1}
V = 512


def choosing(monkeypatch: pytest.MonkeyPatch, attention: str) -> None:
    """Take this implementation wherever none is in a band."""
    plain = attend.choose

    def choose(query: Any, key: Any, visibility: Any) -> str:
        found = plain(query, key, visibility)
        return found if found == "banded" else attention

    monkeypatch.setattr(attend, "choose", choose)


def settings_of(kind: str, **own: Any) -> Countable:
    return parse(KINDS[kind], {"kind": kind, **SMALL, **DEPTH[kind], **own}, where="test")


def network(settings: Countable, n_tokens: int = V) -> nn.Module:
    if isinstance(settings, TransformerSettings):
        return build(settings, n_source=n_tokens, n_target=n_tokens)
    if isinstance(settings, DecoderSettings):
        return build_decoder(settings, n_tokens=n_tokens)
    return build_masked(settings, n_tokens=n_tokens)


def bare(settings: Countable, n_tokens: int) -> nn.Module:
    if isinstance(settings, TransformerSettings):
        return Transformer(settings, n_tokens, n_tokens)
    if isinstance(settings, DecoderSettings):
        return Decoder(settings, n_tokens)
    return MaskedLanguageModel(settings, n_tokens)


def work(kind: str, rows: int, T: int) -> tuple[Objective, Any, float]:
    """An objective, a batch of `rows` of `T` tokens, and the share of them that is predicted."""
    ids = torch.randint(0, V, (rows, T), generator=torch.Generator().manual_seed(1))
    real = torch.ones_like(ids, dtype=torch.bool)
    if kind == "decoder":
        numbers = torch.arange(T).div(50, rounding_mode="floor").expand(rows, T)
        return PredictNext(0.0), PackedBatch(ids, ids, real, numbers), 1.0
    if kind == "transformer":
        return PredictTarget(0.0), PairBatch(ids, real, ids, ids, real), 1.0
    chosen = torch.arange(rows * T).view(rows, T) % 8 == 0
    batch = MaskedBatch(ids, real, torch.zeros_like(ids), chosen, ids[chosen], None)
    return PredictMasked(0.0), batch, 1 / 8


def recompute(model: nn.Module) -> None:
    for module in model.modules():
        if hasattr(module, "recomputes"):
            module.recomputes = True


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_as_many_parameters_as_torch_builds(name: str) -> None:
    row = PRESETS[name]
    settings = parse(KINDS[row["kind"]], row, where=name)
    with torch.device("meta"):  # the classes themselves: first weights would take a while
        model = bare(settings, VOCABULARIES[name])
    found = count_parameters(settings, VOCABULARIES[name])
    assert found.all == sum(weight.numel() for weight in model.parameters())
    stacks = [
        sum(weight.numel() for weight in module.parameters())
        for path, module in model.named_modules()
        if path in ("stack", "encoder.stack", "encoder", "decoder")
        and type(module).__name__ == "Stack"
    ]
    assert found.without_embeddings == sum(stacks)


@pytest.mark.parametrize("score", ["bilinear", "low_rank_bilinear", "additive"])
def test_scores_with_parameters_are_counted(score: str) -> None:
    own = {"score_rank": 3} if score != "bilinear" else {}
    settings = settings_of("decoder", score=score, order="pre", n_kv_heads=2, tie="none", **own)
    model = network(settings)
    found = count_parameters(settings, V)
    assert found.all == sum(weight.numel() for weight in model.parameters())
    assert found.with_head == found.all - V * settings.d_model
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(2, 16, dtype=torch.long))
    assert counter.get_total_flops() / 32 == sum(forward_flops(settings, V, 16).values())


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("attention", ["reference", "fused"])
@pytest.mark.parametrize(
    ("kind", "own"),
    [
        *(("decoder", LLAMA), ("decoder", GPT), ("decoder", WINDOWS), ("transformer", {})),
        *(("encoder", {"pooler": False}), ("encoder", LONGFORMER), ("encoder", LINFORMER)),
    ],
)
def test_operations_are_those_that_torch_counts(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    own: dict[str, Any],
    attention: Any,
    recomputes: bool,
) -> None:
    choosing(monkeypatch, attention)
    settings, T = settings_of(kind, **own), 48
    model = network(settings)
    if recomputes:
        recompute(model)
    objective, batch, share = work(kind, 2, T)
    noise = Noise(1, 1) if settings.dropout else None
    with Operations() as counter:
        (losses,) = objective(model, batch, noise, "float32").values()
        losses.objective.backward()
    wanted = training_flops(settings, V, T, attention=attention, recomputes=recomputes)
    wanted["output"] *= share  # of an encoder the hidden tokens alone
    assert counter.flops / (2 * T) == pytest.approx(sum(wanted.values()), rel=0.01)


def test_the_useful_half_and_one_new_token() -> None:
    settings = settings_of("decoder", **LLAMA)
    assert isinstance(settings, DecoderSettings)
    full, half = (forward_flops(settings, V, 100, useful=useful) for useful in (False, True))
    assert half["scores"] == full["scores"] * 101 / 200
    assert half["feed-forward"] == full["feed-forward"]
    # a text token by token costs what its useful half costs at once
    steps = [sum(generating_flops(settings, V, context).values()) for context in range(100)]
    assert sum(steps) == pytest.approx(100 * sum(half.values()))
    encoder = settings_of("encoder")
    assert forward_flops(encoder, V, 100, useful=True) == forward_flops(encoder, V, 100)


def measured_peak(
    peak: Any, settings: Countable, kind: str, rows: int, T: int, dtype: str, recomputes: bool
) -> int:
    objective, batch, _ = work(kind, rows, T)
    noise = Noise(1, 1) if settings.dropout else None
    with peak:
        model = network(settings)
        if recomputes:
            recompute(model)
        weights = list(model.parameters())
        optimizer = torch.optim.AdamW(weights, fused=True)
        for _ in range(2):
            peak.most = peak.now
            (losses,) = objective(model, batch, noise, dtype).values()
            losses.objective.backward()
            del losses
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return peak.most


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("attention", ["reference", "fused"])
@pytest.mark.parametrize(
    ("kind", "own"),
    [
        *(("decoder", LLAMA), ("decoder", GPT), ("decoder", WINDOWS), ("transformer", {})),
        *(("encoder", {}), ("encoder", LONGFORMER), ("encoder", LINFORMER)),
    ],
)
def test_the_peak_is_within_a_tenth_of_what_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    own: dict[str, Any],
    attention: Any,
    dtype: Any,
    recomputes: bool,
    peak_of: Callable[[], Any],
) -> None:
    choosing(monkeypatch, attention)
    settings, rows, T = settings_of(kind, **own), 2, 96
    share = work(kind, rows, T)[2]
    batch = Batch(rows, T, dtype, attention, recomputes, predicted=share)
    found = training_bytes(settings, V, batch)
    got = measured_peak(peak_of(), settings, kind, rows, T, dtype, recomputes)
    assert found.peak == pytest.approx(got, rel=0.1)


@pytest.mark.parametrize(("rows", "T"), [(1, 8), (8, 32)])
def test_the_peak_of_few_and_of_many_tokens(
    monkeypatch: pytest.MonkeyPatch, peak_of: Callable[[], Any], rows: int, T: int
) -> None:
    """With few tokens the gradients are the most; with many, what the blocks keep."""
    choosing(monkeypatch, "reference")
    settings = settings_of("decoder", **LLAMA)
    found = training_bytes(settings, V, Batch(rows, T, attention="reference"))
    got = measured_peak(peak_of(), settings, "decoder", rows, T, "float32", False)
    assert found.peak == pytest.approx(got, rel=0.1)


def test_what_lies_on_many_devices_is_less_on_each() -> None:
    settings = settings_of("decoder", **LLAMA)
    alone, shared = (
        training_bytes(settings, V, Batch(1, 8, accumulates=True), shards=n) for n in (1, 4)
    )
    assert shared.weights == alone.weights // 4
    assert shared.activations == alone.activations
    assert alone.weights == 4 * count_parameters(settings, V).all == alone.optimizer // 2
    assert shared.peak < alone.peak
    muon = training_bytes(settings, V, Batch(1, 8), optimizer="muon")
    assert alone.weights < muon.optimizer < alone.optimizer


def test_the_cache_is_what_a_state_holds() -> None:
    settings = settings_of("decoder", **LLAMA)
    assert isinstance(settings, DecoderSettings)
    model = build_decoder(settings, n_tokens=V)
    state = model.start(torch.zeros(3, 7, dtype=torch.long), torch.tensor([7, 7, 7]))
    assert state.past is not None
    held = sum(part.numel() * 4 for layer in state.past.layers for part in layer[:2])
    assert held == cache_bytes(settings, 7, rows=3)


def test_the_loss_is_counted_with_the_rows_that_it_holds() -> None:
    assert LOSS_ROWS == CHUNK
