"""Linear layers whose weights have 16, 8 or 4 bits, for generating on a CPU.

One token meets each weight once, so that reading the weights is what takes the time: a half, a
quarter or an eighth of the bytes takes as much less. The kernels are torch's own; all compute in
bfloat16.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from headway.nn.attention import Attention
from headway.nn.block import Block
from headway.nn.feed_forward import GatedFeedForward

Bits = Literal["bfloat16", "int8", "int4"]
GROUP = 32  # inputs that share a scale and a zero in 4 bits, as in GGUF's Q4_1
_ROWS = 64  # that the packed kernel keeps side by side
# Rows of input from which it is quicker to unpack the weights: the kernels do it again for every 4
MANY_INT8, MANY_INT4 = 8, 64
_int4_product = torch.ops.aten._weight_int4pack_mm_for_cpu.default
_LEAST = 1e-12  # a scale: that of a row of zeros is none


class Bfloat16Linear(nn.Module):
    """A linear layer of 16 bits a weight."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight.bfloat16())
        self.error = _squares(weight - self.weight)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, in) -> (…, out) bfloat16."""
        found = nn.functional.linear(hidden.bfloat16(), self.weight)
        return found if self.bias is None else found + self.bias


class Int8Linear(nn.Module):
    """A linear layer of 8 bits a weight, one scale a row: w ≈ s · q, q from -127 to 127."""

    steps: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        weight = nn.functional.pad(weight, (0, -self.in_features % GROUP))
        scale = (weight.abs().amax(dim=1) / 127).clamp_min(_LEAST).bfloat16()
        steps = (weight / scale.float()[:, None]).round().clamp(-127, 127)
        self.error = _squares(weight - steps * scale.float()[:, None])
        self.register_buffer("steps", steps.to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, in) -> (…, out) bfloat16."""
        rows = _filled(hidden, self.steps.shape[1])
        if len(rows) < MANY_INT8:
            found = torch._weight_int8pack_mm(rows, self.steps, self.scale)
        else:
            found = nn.functional.linear(rows, self.steps.bfloat16()) * self.scale
        found = found.view(*hidden.shape[:-1], self.out_features)
        return found if self.bias is None else found + self.bias


class Int4Linear(nn.Module):
    """A linear layer of 4 bits a weight: w ≈ s · (q - 8) + z, q from 0 to 15, in groups of inputs.

    The steps run from the least weight of a group to the greatest, as in GGUF's Q4_1: weights that
    come from there fall on the same steps again.
    """

    packed: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        free = (0, -self.in_features % GROUP, 0, -self.out_features % _ROWS)
        weight = nn.functional.pad(weight, free)
        N, K = weight.shape
        groups = weight.view(N, K // GROUP, GROUP)
        low, high = groups.amin(dim=-1, keepdim=True), groups.amax(dim=-1, keepdim=True)
        scale = ((high - low) / 15).clamp_min(_LEAST).bfloat16()
        zero = (low + 8 * scale.float()).bfloat16()
        steps = ((groups - zero.float()) / scale.float()).round().clamp(-8, 7)
        self.error = _squares(groups - (steps * scale.float() + zero.float()))
        self.register_buffer("packed", _packed((steps + 8).int().view(N, K)))
        both = torch.cat((scale, zero), dim=-1).transpose(0, 1)  # (K / GROUP, N, 2)
        self.register_buffer("scales", both.contiguous())
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, in) -> (…, out) bfloat16."""
        rows = _filled(hidden, 2 * self.packed.shape[1])
        if len(rows) < MANY_INT4 or not _in_halves():
            found: Tensor = _int4_product(rows, self.packed, GROUP, self.scales)
        else:
            steps = _unpacked(self.packed).view(-1, GROUP, len(self.packed))
            scale, zero = (each.contiguous()[:, None] for each in self.scales.unbind(dim=-1))
            found = rows @ torch.addcmul(zero, steps, scale).flatten(0, 1)
        if found.shape[1] != self.out_features:
            found = found[:, : self.out_features]
        found = found.view(*hidden.shape[:-1], self.out_features)
        return found if self.bias is None else found + self.bias


KINDS: dict[Bits, type[Bfloat16Linear | Int8Linear | Int4Linear]] = {
    "bfloat16": Bfloat16Linear,
    "int8": Int8Linear,
    "int4": Int4Linear,
}


def _filled(hidden: Tensor, width: int) -> Tensor:
    """(…, in) -> (N, width) bfloat16, zeros behind: the kernels want whole groups of inputs."""
    rows = hidden.bfloat16().reshape(-1, hidden.shape[-1])
    lacking = width - rows.shape[1]
    return nn.functional.pad(rows, (0, lacking)) if lacking else rows


def _packed(steps: Tensor) -> Tensor:
    """Steps (N, K) from 0 to 15 as the kernel of this processor wants them: (N, K / 2) bytes."""
    packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps, 1)
    return packed


def _unpacked(packed: Tensor) -> Tensor:
    """The steps of `_packed`, from -8 to 7: (K, N) bfloat16.

    A column of 64 rows is 32 bytes; their low halves are its first 32 steps.
    """
    N, K = packed.shape[0], 2 * packed.shape[1]
    pairs = packed.view(N // _ROWS, K, _ROWS // 2).transpose(0, 1)  # (K, N / 64, 32)
    steps = torch.empty(K, N // _ROWS, 2, _ROWS // 2, dtype=torch.bfloat16)
    steps[:, :, 0], steps[:, :, 1] = pairs & 15, pairs >> 4
    return steps.view(K, N).sub_(8)


@functools.cache
def _in_halves() -> bool:
    """Whether `_unpacked` knows how this processor's kernel packs: it is not told anywhere."""
    steps = torch.arange(2 * _ROWS * GROUP, dtype=torch.int32).view(-1, GROUP) * 7 % 61 % 16
    return torch.equal(_unpacked(_packed(steps)) + 8, steps.T.bfloat16())


@dataclass(frozen=True)
class Rounding:
    """What became of a network's weights: `weights` of them now take `bytes` in place of `before`.

    `error` is the norm of what the rounding changed over the norm of the weights. `group` inputs
    share a scale, 0 where all of a row do or there is none.
    """

    layers: int
    weights: int
    before: int
    bytes: int
    error: float
    group: int

    def __str__(self) -> str:
        sizes = f"{self.bytes / 1e6:,.1f} MB in place of {self.before / 1e6:,.1f}"
        said = f"{self.weights:,} weights in {sizes}, changed by {self.error:.2%} of their norm"
        return f"{said}, in groups of {self.group}" if self.group else said


def quantize(network: nn.Module, bits: Bits) -> Rounding:
    """Round the weights of all linear layers of a network, in place, to 16, 8 or 4 bits.

    Layers that are given the same are joined to one. What gives logits keeps 8 bits at least, for
    there a rounding is seen at once. The network cannot be trained any further.
    """
    rounds = _Rounds(bits)
    for block in [module for module in network.modules() if isinstance(module, Block)]:
        own = block.attention
        if type(own) is Attention and own.joint is None:
            own.joint = rounds.joined(own, ("to_query", "to_key", "to_value"))
        feed = block.feed_forward
        if isinstance(feed, GatedFeedForward) and feed.joint is None:
            feed.joint = rounds.joined(feed, ("gate", "up"))
    for owner in list(network.modules()):
        for name, layer in list(owner.named_children()):
            if isinstance(layer, nn.Linear):
                least = "int8" if owner is network and bits == "int4" else bits
                setattr(owner, name, rounds.rounded([layer], least))
    error = (rounds.error / rounds.squares) ** 0.5 if rounds.squares else 0.0
    group = GROUP if bits == "int4" else 0
    return Rounding(rounds.layers, rounds.weights, rounds.before, rounds.bytes, error, group)


class _Rounds:
    """Rounds layers, and counts."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits
        self.layers = self.weights = self.before = self.bytes = 0
        self.error = self.squares = 0.0

    def joined(self, owner: nn.Module, names: Sequence[str]) -> nn.Module:
        """The layers of those names as one, which takes their place."""
        made = self.rounded([getattr(owner, name) for name in names], self.bits)
        for name in names:
            delattr(owner, name)
        return made

    def rounded(self, layers: Sequence[nn.Linear], bits: Bits) -> nn.Module:
        """One layer that computes these side by side."""
        weight = torch.cat([layer.weight.detach().float() for layer in layers])
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        bias = torch.cat(biases).detach().float() if biases else None
        made = KINDS[bits](weight, bias)
        self.layers += len(layers)
        self.weights += weight.numel()
        self.before += sum(layer.weight.nbytes for layer in layers)
        self.bytes += sum(buffer.nbytes for buffer in made.buffers())
        self.error += made.error
        self.squares += _squares(weight)
        return made


def _squares(values: Tensor) -> float:
    return float(values.square().sum())
