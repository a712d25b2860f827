"""How much of a machine's matrix rate a training uses."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from headway.nn.stack import stacks_of

SIDE, SIDE_ON_CARDS = 1024, 4096  # of square matrices that show the rate at a glance


def _fused(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))  # type: ignore[no-untyped-call]


def _fused_backward(gradient: Tensor, query: Tensor, key: Tensor, *rest: Any, **_: Any) -> int:
    shapes = (gradient.shape, query.shape, key.shape, rest[0].shape)
    return int(sdpa_backward_flop_count(*shapes))  # type: ignore[no-untyped-call]


# torch counts its fused kernels, but for those of a CPU
FORMULAS = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_backward,
}


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the floating-point operations of matrix products while it is on.

    What is computed again counts again (activation checkpointing, fused attention's scores).
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        count = FORMULAS.get(func._overloadpacket)
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=made)
        return made


@contextlib.contextmanager
def counting(model: nn.Module) -> Iterator[Operations]:
    """Counts; what torch.compile makes it would not see, so that nothing is compiled meanwhile."""
    compiled = [stack for stack in stacks_of(model) if stack.compiles]
    for stack in compiled:
        stack.compiles = False
    try:
        with Operations() as operations:
            yield operations
    finally:
        for stack in compiled:
            stack.compiles = True


def best_seconds(work: Callable[[], object], device: torch.device, least_s: float) -> float:
    """Of the fastest of some rounds, three at least, after one that does not count."""
    best, until = float("inf"), 0.0
    for number in range(10_000):
        began = time.perf_counter()
        work()
        if device.type != "cpu":
            getattr(torch, device.type).synchronize()
        now = time.perf_counter()
        if number == 0:
            until = now + least_s
            continue
        best = min(best, now - began)
        if number >= 3 and now > until:
            break
    return best


def product_rate(side: int, dtype: torch.dtype, device: torch.device, least_s: float) -> float:
    """FLOP/s of a product of square matrices."""
    own = torch.Generator(device)  # torch's own numbers are the training's
    one, other = (torch.randn(side, side, device=device, generator=own).to(dtype) for _ in range(2))
    return 2 * side**3 / best_seconds(lambda: one @ other, device, least_s)


@functools.cache
def matrix_rate(dtype: torch.dtype, device: torch.device, threads: int) -> float:
    """FLOP/s that products reach on this device: a short look, once in a process."""
    side = SIDE if device.type == "cpu" else SIDE_ON_CARDS
    return product_rate(side, dtype, device, 0.0)
