"""The feed-forward part of a block: the same small network at every position."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from headway.nn.dropout import Dropout, Noise
from headway.settings.model import StackSettings


def _gelu_tanh(hidden: Tensor) -> Tensor:
    return F.gelu(hidden, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
}


class FeedForward(nn.Module):
    """W₂ a(W₁ x): a is ReLU (Vaswani et al., 2017), GELU or SiLU (Hendrycks & Gimpel, 2016)."""

    def __init__(self, settings: StackSettings) -> None:
        super().__init__()
        D, feed = settings.d_model, settings.d_feed_forward
        self.up = nn.Linear(D, feed, bias=settings.bias)
        self.down = nn.Linear(feed, D, bias=settings.bias)
        self.dropout = Dropout(settings.inner_dropout)
        self.activation = ACTIVATIONS[settings.feed_forward]

    def forward(self, hidden: Tensor, noise: Noise | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        inner = self.activation(self.up(hidden))  # (B, T, F)
        result: Tensor = self.down(self.dropout(inner, noise))
        return result


class GatedFeedForward(nn.Module):
    """W₂ (silu(W₁ x) ⊙ W₃ x): SwiGLU (Shazeer, 2020).

    `joint` computes both of the inner products at once, where the two layers were joined.
    """

    def __init__(self, settings: StackSettings) -> None:
        super().__init__()
        D, feed = settings.d_model, settings.d_feed_forward
        self.joint: nn.Module | None = None
        self.gate = nn.Linear(D, feed, bias=settings.bias)
        self.up = nn.Linear(D, feed, bias=settings.bias)
        self.down = nn.Linear(feed, D, bias=settings.bias)
        self.dropout = Dropout(settings.inner_dropout)

    def forward(self, hidden: Tensor, noise: Noise | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        if self.joint is None:
            gate, up = self.gate(hidden), self.up(hidden)
        else:
            gate, up = self.joint(hidden).chunk(2, dim=-1)
        inner = F.silu(gate) * up  # (B, T, F)
        result: Tensor = self.down(self.dropout(inner, noise))
        return result


def make_feed_forward(settings: StackSettings) -> FeedForward | GatedFeedForward:
    """The feed-forward network that the settings name."""
    return (GatedFeedForward if settings.feed_forward == "swiglu" else FeedForward)(settings)
