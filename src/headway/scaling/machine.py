"""What this machine can do at most: matrix products, memory, and where attention's ways cross."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import torch

from headway.base.errors import UserError
from headway.base.progress import ProgressBar
from headway.base.runtime import keep_pages, memory, processor
from headway.nn.attend import attend
from headway.nn.scores import make_score
from headway.nn.visibility import causal
from headway.training.utilisation import best_seconds, product_rate

SIDES = (1024, 2048, 4096)  # of square matrices: the fastest counts
NUMBERS = 2**27  # float32 that are read or copied: more than any cache holds
LENGTHS = (32, 64, 128, 256, 512, 1024)
HEADS, WIDTH, TOKENS = 8, 64, 4096  # of the attention that is timed
DTYPES = ("float32", "bfloat16")
WAYS = ("reference", "fused")
LONGEST_S = 1.0  # of a product: where one takes longer, larger ones take minutes and are no faster
LEAST_S = 0.2  # a figure is the best of the rounds that this leaves time for, three at least


@dataclass(frozen=True)
class Ability:
    """What a machine was seen to do.

    `products` are GFLOP/s of matrix products by dtype, `reading` and `copying` GB/s (what is copied
    counts twice), `memory` bytes. `crossings` say from how many tokens on torch's fused attention
    is faster than plain products: `training` or `inference`, dtype, tokens (None: not up to 1,024).
    """

    name: str
    device: str
    threads: int
    products: dict[str, float]
    reading: float
    copying: float
    memory: int
    crossings: list[dict[str, Any]]

    def entry(self) -> dict[str, Any]:
        """What the table of machines says of it."""
        return {
            "name": f"{self.name}, {self.threads} threads" if self.device == "cpu" else self.name,
            "peak": {dtype: round(rate / 1e3, 4) for dtype, rate in self.products.items()},
            "memory": round(self.memory / 1e9, 1),
            "device": "cpu" if self.device == "cpu" else "accelerator",
            "bandwidth": self.reading,
            "source": "headway bench machine",
            "date": datetime.date.today(),
        }


def measure(device: torch.device) -> Ability:
    """Time this machine; it takes a minute. Raises UserError where it has too little memory.

    A dtype whose products take twice as long as float32's is of no use, and attention in it is not
    timed.
    """
    keep_pages()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    try:
        with ProgressBar("measuring", len(DTYPES) * (1 + 2 * len(LENGTHS)) + 1) as progress:
            products = {}
            for dtype in DTYPES:
                products[dtype] = round(_product_rate(getattr(torch, dtype), device) / 1e9, 1)
                progress.advance()
            reading, copying = _bandwidth(device)
            progress.advance()
            useful = [dtype for dtype in DTYPES if 2 * products[dtype] >= products["float32"]]
            progress.advance(2 * len(LENGTHS) * (len(DTYPES) - len(useful)))
            crossings = [
                {"work": work, "dtype": dtype, "tokens": _crossing(work, dtype, device, progress)}
                for work in ("inference", "training")
                for dtype in useful
            ]
    except torch.OutOfMemoryError:
        raise UserError("too little memory is free to measure in", where=str(device)) from None
    return Ability(
        name=name,
        device=device.type,
        threads=torch.get_num_threads(),
        products=products,
        reading=round(reading, 1),
        copying=round(copying, 1),
        memory=_memory(device),
        crossings=crossings,
    )


def _product_rate(dtype: torch.dtype, device: torch.device) -> float:
    """FLOP/s of products of square matrices, of those sides that are the fastest."""
    best = 0.0
    for side in SIDES:
        rate = product_rate(side, dtype, device, LEAST_S)
        best = max(best, rate)
        if 2 * side**3 / rate > LONGEST_S:
            break
    return best


def _bandwidth(device: torch.device) -> tuple[float, float]:
    """GB/s of reading and of copying."""
    numbers = torch.ones(NUMBERS, device=device)
    there = torch.empty_like(numbers)
    size = numbers.nbytes / 1e9
    reading = size / best_seconds(numbers.sum, device, LEAST_S)
    return reading, 2 * size / best_seconds(lambda: there.copy_(numbers), device, LEAST_S)


def _crossing(work: str, dtype: str, device: torch.device, progress: ProgressBar) -> int | None:
    """From how many tokens on the fused attention is the faster one, for all that follow."""
    found: int | None = None
    for length in LENGTHS:
        plain, fused = (_attention(way, length, dtype, device, work) for way in WAYS)
        found = (found or length) if fused < plain else None
        progress.advance()
    return found


def _attention(way: Any, length: int, dtype: str, device: torch.device, work: str) -> float:
    """Seconds of causal attention over TOKENS tokens in texts of that length."""
    trains = work == "training"
    shape = (max(1, TOKENS // length), HEADS, length, WIDTH)
    kind = getattr(torch, dtype)
    parts = [torch.randn(shape, device=device, dtype=kind, requires_grad=trains) for _ in range(3)]
    slope = torch.randn(shape, device=device, dtype=kind)
    score = make_score("scaled_dot", WIDTH, WIDTH, n_heads=HEADS)

    def once() -> None:
        with torch.set_grad_enabled(trains):
            found = attend(*parts, score=score, visibility=causal(), implementation=way)
            if trains:
                found.backward(slope)  # type: ignore[no-untyped-call]

    return best_seconds(once, device, LEAST_S)


def _memory(device: torch.device) -> int:
    """Bytes of the device, or of the machine."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return memory()
