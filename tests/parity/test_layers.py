"""Norms and feed-forward networks against torch.nn and against their formulas in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.nn.dropout import Noise, number_places
from headway.nn.feed_forward import GatedFeedForward, make_feed_forward
from headway.nn.norm import LayerNorm, LectureNorm, RMSNorm, make_norm
from headway.settings.model import StackSettings

D = 6


def settings(**changed: Any) -> StackSettings:
    return StackSettings(**{"d_model": D, "d_feed_forward": 10, "n_heads": 2, **changed})


def random_weights(module: nn.Module) -> None:
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.7)


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.1])
@pytest.mark.parametrize(("ours", "theirs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_norms_equal_torch(ours: type[nn.Module], theirs: type[nn.Module], eps: float) -> None:
    torch.manual_seed(0)
    norm, other = ours(D, eps), theirs(D, eps=eps)
    random_weights(norm)
    other.load_state_dict(norm.state_dict())
    hidden = torch.randn(2, 3, D) * 3 + 1
    torch.testing.assert_close(norm(hidden), other(hidden))


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_lecture_norm_is_its_formula(eps: float) -> None:
    torch.manual_seed(1)
    norm = LectureNorm(D, eps)
    random_weights(norm)
    hidden = torch.randn(4, D) * 2 - 3
    found = norm(hidden)
    for row, features in zip(found.tolist(), hidden.double().tolist(), strict=True):
        mean = sum(features) / D
        sigma = math.sqrt(sum((x - mean) ** 2 for x in features) / D)
        for value, x, gain, shift in zip(
            row, features, norm.weight.tolist(), norm.bias.tolist(), strict=True
        ):
            assert value == pytest.approx(gain * (x - mean) / (sigma + eps) + shift, abs=1e-5)


def test_where_epsilon_stands_matters() -> None:
    hidden = torch.randn(1, D)
    assert not torch.allclose(LectureNorm(D, 0.5)(hidden), LayerNorm(D, 0.5)(hidden), atol=1e-2)


@pytest.mark.parametrize("norm", [LayerNorm(D, 1e-5), LectureNorm(D, 1e-5), RMSNorm(D, 1e-5)])
def test_rows_without_variance_are_finite(norm: nn.Module) -> None:
    for value in (0.0, 2.0):
        hidden = torch.full((1, D), value, requires_grad=True)
        result = norm(hidden)
        (result * torch.arange(D)).sum().backward()
        assert result.isfinite().all()
        assert hidden.grad is not None
        assert hidden.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["layer", "lecture", "rms"])
def test_norms_are_float32_whatever_comes_in(kind: str) -> None:
    norm = make_norm(settings(norm=kind))
    hidden = (torch.randn(2, D) * 100).bfloat16()
    found = norm(hidden)
    assert found.dtype == torch.float32
    assert torch.equal(found, norm(hidden.float()))


def test_the_settings_choose_the_norm_and_its_epsilon() -> None:
    for kind, wanted in (("layer", LayerNorm), ("lecture", LectureNorm), ("rms", RMSNorm)):
        norm = make_norm(settings(norm=kind, norm_eps=1e-12))
        assert type(norm) is wanted
        assert norm.eps == 1e-12
    hidden = torch.randn(2, D)
    assert make_norm(settings(norm="none"))(hidden) is hidden


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_feed_forward_is_its_formula(kind: str, bias: bool) -> None:
    torch.manual_seed(2)
    network = make_feed_forward(settings(feed_forward=kind, bias=bias))
    random_weights(network)
    hidden = torch.randn(2, 3, D)

    def apply(layer: nn.Linear, x: Tensor) -> Tensor:
        assert (layer.bias is not None) == bias
        result = x @ layer.weight.double().T
        return result + layer.bias.double() if bias else result

    x = hidden.double()
    if isinstance(network, GatedFeedForward):
        gate = apply(network.gate, x)
        inner = gate / (1 + torch.exp(-gate)) * apply(network.up, x)
    else:
        activation = {"relu": lambda x: x.clamp_min(0), "gelu": gelu, "gelu_tanh": gelu_tanh}[kind]
        inner = activation(apply(network.up, x))
    wanted = apply(network.down, inner)
    torch.testing.assert_close(network(hidden, None).double(), wanted, rtol=1e-5, atol=1e-5)


def test_the_two_gelus_differ() -> None:
    """By up to 4.7e-4: enough to spoil weights that were trained with the other."""
    x = torch.linspace(-4, 4, 1000)
    assert (gelu(x) - gelu_tanh(x)).abs().max().item() == pytest.approx(4.7e-4, rel=0.05)


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_noise_drops_inner_features(kind: str) -> None:
    network = make_feed_forward(settings(feed_forward=kind, dropout=0.5))
    number_places(network)
    hidden = torch.randn(2, 3, D)
    assert torch.equal(network(hidden, None), network(hidden, None))
    assert not torch.equal(network(hidden, Noise(0, 0)), network(hidden, None))
