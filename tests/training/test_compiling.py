"""Training through torch.compile: one graph, the same steps, and what is said where it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.models.build import build_decoder, build_masked
from headway.nn import stack
from headway.nn.dropout import Noise
from headway.nn.stack import Stack, stacks_of
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.training import compiling
from headway.training.compiling import Trial, compiles_here
from headway.training.loop import Trainer

Make = Callable[..., Trainer]
Weights = Callable[[Trainer], dict[str, Tensor]]
SHAPE = {"d_model": 16, "d_feed_forward": 24, "n_heads": 2, "n_layers": 2, "max_length": 32}
DECODERS: dict[str, dict[str, Any]] = {
    "gpt": {"dropout": 0.1},
    "attention dropout": {"attention_dropout": 0.1},
    "llama": {
        "norm": "rms",
        "positions": "rotary",
        "feed_forward": "swiglu",
        "bias": False,
        "n_kv_heads": 1,
    },
    "windows": {"reach": [4, 0]},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {"dropout": 0.1},
    "longformer": {"reach": [4], "n_global": 1},
    "linformer": {"n_keys": 4},
}


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """torch.compile without its compiler: each graph's number of operations."""
    torch.compiler.reset()
    found: list[int] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        found.append(len(graph.graph.nodes))
        return graph.forward

    compiled = torch.compile(Stack._through, fullgraph=True, backend=backend)
    monkeypatch.setattr(stack, "_compiled", lambda: compiled)
    return found


def learnt(network: torch.nn.Module, through: Callable[[Noise], Tensor], step: int) -> list[Tensor]:
    network.zero_grad()
    through(Noise(1, step)).square().sum().backward()
    return [weight.grad.clone() for weight in network.parameters() if weight.grad is not None]


@pytest.mark.parametrize(
    ("name", "recomputes"),
    [*((name, False) for name in (*DECODERS, *ENCODERS)), ("gpt", True), ("llama", True)],
)
def test_a_stack_is_one_graph_with_the_same_gradients(
    name: str, graphs: list[int], *, recomputes: bool
) -> None:
    ids = torch.randint(0, 40, (2, 16), generator=torch.Generator().manual_seed(1))
    real = torch.arange(16)[None] < torch.tensor([[16], [11]])
    network: Any
    if name in DECODERS:
        settings = DecoderSettings.model_validate(SHAPE | DECODERS[name])
        network = build_decoder(settings, n_tokens=40, seed=1)
        numbers = torch.arange(16)[None] // torch.tensor([[6], [16]])

        def through(noise: Noise) -> Tensor:
            hidden: Tensor = network.hidden(ids, numbers=numbers, noise=noise)
            return hidden

    else:
        rows = EncoderSettings.model_validate(
            SHAPE | {"n_segments": 0, "pooler": False} | ENCODERS[name]
        )
        network = build_masked(rows, n_tokens=40, seed=1).encoder

        def through(noise: Noise) -> Tensor:
            hidden: Tensor = network(ids, real, None, noise)
            return hidden

    (one,) = stacks_of(network)
    one.recomputes = recomputes
    expected = [learnt(network, through, step) for step in (1, 2)]
    one.compiles = True
    found = [learnt(network, through, step) for step in (1, 2)]
    for ours, plain in zip(found, expected, strict=True):
        for gradient, wanted in zip(ours, plain, strict=True):
            torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-6)
    assert 1 <= len(graphs) <= 2  # the second has the number of the step for a variable
    with torch.no_grad():
        through(Noise(1, 4))
    assert len(graphs) <= 2  # what is not trained is not compiled


def test_a_training_is_the_same_and_its_operations_are_counted(
    make: Make, weights_of: Weights, graphs: list[int]
) -> None:
    plain, compiled = make(compile=False), make(compile=True)
    for each in stacks_of(compiled.model):
        each.compiles = True
    for trainer in (plain, compiled):
        batches = trainer.batches.after(0, 0)
        for _ in range(3):
            trainer.advance(batches)
    assert len(graphs) >= 2  # encoder and decoder
    assert compiled.work == plain.work > 0
    assert compiled.state.step == 3
    for name, weight in weights_of(plain).items():
        torch.testing.assert_close(weights_of(compiled)[name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("steps", "plain", "compiled", "expected"),
    [
        (1000, Trial(1.0, 1.0), Trial(60.0, 0.5), True),
        (1000, Trial(1.0, 1.0), Trial(60.0, 0.96), False),  # 1,020 s in place of 1,000
        (50, Trial(1.0, 1.0), Trial(0.5, 0.5), False),  # no trial at all
    ],
)
def test_it_is_taken_where_the_whole_training_is_shorter(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
    plain: Trial,
    compiled: Trial,
    expected: bool,
) -> None:
    monkeypatch.setattr(compiling, "_tried", lambda trainer, *, compiled: by_way[compiled])
    by_way = {False: plain, True: compiled}
    assert compiles_here(make(steps=steps, compile="auto")) is expected


def test_a_trial_leaves_the_training_as_it_was(
    make: Make, weights_of: Weights, graphs: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make(compile=True)
    before = weights_of(trainer)
    assert compiles_here(trainer)
    assert graphs
    assert "compiling took" in capsys.readouterr().err
    assert trainer.state.step == 0
    assert not any(each.compiles for each in stacks_of(trainer.model))
    assert all(torch.equal(weights_of(trainer)[name], before[name]) for name in before)


def test_where_it_fails_that_is_said_in_a_line(
    make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def backend(*_: object) -> Callable[..., Any]:
        raise RuntimeError("there is no compiler\nat all")

    broken = torch.compile(Stack._through, fullgraph=True, backend=backend)
    monkeypatch.setattr(stack, "_compiled", lambda: broken)
    assert not compiles_here(make(compile=True))
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "the training goes without it" in said[0]
    assert "there is no compiler" in said[0]


def test_a_recurrent_network_has_nothing_to_compile(make: Make) -> None:
    assert not compiles_here(make("recurrent", compile=True))
