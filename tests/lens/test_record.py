from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headway.base.errors import UserError
from headway.lens.record import record
from headway.nn.tap import Tap


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tap_weights = Tap()
        self.other = nn.Identity()

    def forward(self, hidden: Tensor) -> Tensor:
        if self.tap_weights.watched:
            self.tap_weights(hidden.softmax(-1))
        return self.other(hidden) * 2


def model() -> nn.Sequential:
    return nn.Sequential(Layer(), Layer())


def test_keeps_what_passed_in_order_and_leaves_no_hook() -> None:
    network, hidden = model(), torch.randn(2, 3, requires_grad=True)
    with record(network, "*.tap_weights") as trace:
        network(hidden)
        network(hidden + 1)
    assert list(trace) == ["0.tap_weights", "1.tap_weights"]
    torch.testing.assert_close(trace["0.tap_weights"][0], hidden.detach().softmax(-1))
    torch.testing.assert_close(trace["1.tap_weights"][1], (2 * hidden.detach() + 2).softmax(-1))
    assert not trace["0.tap_weights"][0].requires_grad
    network(hidden)
    assert [len(kept) for kept in trace.values()] == [2, 2]
    assert not any(layer.tap_weights.watched for layer in network)


def test_only_taps_that_match_are_watched() -> None:
    network = model()
    with record(network, "1.*") as trace:
        assert [layer.tap_weights.watched for layer in network] == [False, True]
        assert trace == {"1.tap_weights": []}


def test_hooks_go_when_the_block_fails() -> None:
    network = model()
    with pytest.raises(ZeroDivisionError), record(network, "*"):
        raise ZeroDivisionError
    assert not any(layer.tap_weights.watched for layer in network)


def test_a_pattern_without_match_names_the_taps() -> None:
    with (
        pytest.raises(UserError, match=r"'9\.\*'.*0\.tap_weights, 1\.tap_weights"),
        record(model(), "9.*"),
    ):
        pass
    with pytest.raises(UserError, match="none at all"), record(nn.Linear(2, 2), "*"):
        pass
