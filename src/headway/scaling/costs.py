"""What a training takes on a machine: where it fits, how fast it goes, what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.scaling.hardware import Hardware, Machine
from headway.scaling.shapes import Shape
from headway.settings.counting import forward_flops, training_flops
from headway.settings.memory import Batch, Device, TrainingBytes, training_bytes

USED = 0.9  # of a device's memory: the rest is the allocator's and the driver's
MOST_DEVICES = 131_072
_MOST_ROWS = 64


@dataclass(frozen=True)
class Range:
    """A number with the least and the greatest that are likely."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True)
class Placement:
    """How a training lies on its devices: `rows` texts at a time on each.

    `judged` is whether the first one also holds the whole model, as `headway train` does to judge
    what is in shards. A model of which none can is planned all the same.
    """

    devices: int
    dtype: Literal["bfloat16", "float32"]
    rows: int
    recomputes: bool
    shards: int
    bytes: TrainingBytes
    memory: float  # bytes of a device
    device: Device
    judged: bool

    def text(self) -> str:
        """In words: what it takes to fit."""
        takes = ["checkpointing"] if self.recomputes else []
        takes += [f"{self.shards} shards"] if self.shards > 1 else []
        takes += [] if self.judged else ["judging elsewhere"]
        return ", ".join(takes) or "nothing more"


@dataclass(frozen=True)
class Cost:
    """What a training takes; `usd` and `kwh` are None where a price or a power is not known."""

    devices: int
    tokens_per_second: Range
    hours: Range
    device_hours: float
    usd: Range | None
    kwh: float | None


def flops_a_token(shape: Shape) -> float:
    """Training FLOPs a token, attention in full (as Chowdhery et al., 2022, appendix B, count)."""
    return 3.0 * sum(forward_flops(shape.settings, shape.n_tokens, shape.length).values())


def moved_a_flop(shape: Shape, dtype: Literal["bfloat16", "float32"], device: Device) -> float:
    """Bytes that a training keeps for its backward pass, logits too, for each of its FLOPs."""
    batch = Batch(1, shape.length, dtype, device=device)
    kept = training_bytes(shape.settings, shape.n_tokens, batch).activations / shape.length
    return (kept + 4.0 * shape.n_tokens) / flops_a_token(shape)


def serving_flops(shape: Shape) -> float:
    """FLOPs of a token that is read or written later, the mean over a text."""
    operations = forward_flops(shape.settings, shape.n_tokens, shape.length, useful=True)
    return sum(operations.values())


def place(shape: Shape, machine: Machine, devices: int) -> Placement | None:
    """The simplest way in which a training fits on so many devices; None if none does.

    Simpler is: nothing recomputed, then nothing sharded. Of that way as many rows at a time as fit.
    """
    for recomputes, shards in ((False, 1), (True, 1), (False, devices), (True, devices)):
        found = None
        judged = shards == 1 or _holds(shape, machine)
        rows = 1
        while rows <= _MOST_ROWS:
            need = _fits(shape, machine, rows, recomputes=recomputes, shards=shards, judges=judged)
            if need is None:
                break
            found = Placement(
                *(devices, machine.dtype, rows, recomputes, shards, need, machine.bytes),
                device=machine.device,
                judged=judged,
            )
            rows *= 2
        if found is not None:
            return found
    return None


def _holds(shape: Shape, machine: Machine) -> bool:
    """Whether the first of however many devices can hold the whole model beside its part."""
    least = _fits(shape, machine, 1, recomputes=True, shards=MOST_DEVICES, judges=True)
    return least is not None


def _fits(
    shape: Shape, machine: Machine, rows: int, *, recomputes: bool, shards: int, judges: bool
) -> TrainingBytes | None:
    """The bytes of a training with so many rows at a time, None if a device has too few."""
    # a batch of the step before has left its gradients
    batch = Batch(
        *(rows, shape.length, machine.dtype),
        recomputes=recomputes,
        accumulates=True,
        device=machine.device,
    )
    settings, ids = shape.settings, shape.n_tokens
    need = training_bytes(settings, ids, batch, shards=shards, judges=judges)
    return need if need.peak <= USED * machine.bytes else None


def repeats(shape: Shape, *, recomputes: bool) -> float:
    """How many FLOPs are computed for each that is counted: with checkpointing more than one."""
    if not recomputes:
        return 1.0
    counted, computed = (
        sum(training_flops(shape.settings, shape.n_tokens, shape.length, recomputes=each).values())
        for each in (False, True)
    )
    return computed / counted


def fewest(shape: Shape, machine: Machine) -> int | None:
    """The fewest devices, a power of two, on which a training fits; None if no number does."""
    devices = 1
    while devices <= MOST_DEVICES:
        if place(shape, machine, devices) is not None:
            return devices
        devices *= 2
    return None


def cost(
    flops: float,
    tokens: float,
    shape: Shape,
    machine: Machine,
    devices: int,
    hardware: Hardware,
    share: float | None = None,
    *,
    recomputes: bool = False,
) -> Cost:
    """What so many FLOPs for so many tokens of a model take on `devices` of a machine."""
    rates = hardware.rate(machine, share, moved=moved_a_flop(shape, machine.dtype, machine.device))
    low, likely, high = (rate / repeats(shape, recomputes=recomputes) for rate in rates)
    device_hours = flops / likely / 3600
    hours = Range(*(flops / (rate * devices) / 3600 for rate in (high, likely, low)))
    usd = None
    if machine.price is not None:
        each = machine.price.usd * devices
        usd = Range(hours.low * each, hours.likely * each, hours.high * each)
    return Cost(
        devices,
        Range(*(tokens * rate * devices / flops for rate in (low, likely, high))),
        hours,
        device_hours,
        usd,
        None if machine.power is None else machine.power * device_hours / 1000,
    )
