"""Where torch's fused attention overtakes the plain products on this machine's CPU.

    .venv/bin/python benchmarks/attention.py --json benchmarks/results/attention.json

Times both implementations of `attend` side by side, for inference and for training (forward and
backward), at a constant number of tokens, and prints the ratio. The crossing points in
`headway/nn/attend.py` are read off this.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment, keep_pages
from headway.nn.attend import attend
from headway.nn.scores import make_score
from headway.nn.visibility import padding

HEADS, WIDTH, TOKENS = 4, 32, 8192
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)


def seconds(implementation: str, length: int, dtype: torch.dtype, *, trains: bool) -> float:
    """The median time of one attention over TOKENS tokens in rows of `length`, with padding."""
    rows = max(1, TOKENS // length)
    score = make_score("scaled_dot", WIDTH, WIDTH, n_heads=HEADS)
    shape = (rows, HEADS, length, WIDTH)
    parts = [torch.randn(shape, dtype=dtype, requires_grad=trains) for _ in range(3)]
    gradient = torch.randn(shape, dtype=dtype)  # of a sum it would be a view, which is slow
    real = torch.arange(length) < torch.randint(length // 2, length + 1, (rows, 1))

    def once() -> float:
        began = time.perf_counter()
        with torch.set_grad_enabled(trains):
            result = attend(
                *parts, score=score, visibility=padding(real), implementation=implementation
            )
            if trains:
                result.backward(gradient)
        return time.perf_counter() - began

    once()
    return median(once() for _ in range(7))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    keep_pages()
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for trains in (False, True):
        for dtype in (torch.float32, torch.bfloat16):
            for length in LENGTHS:
                taken = {
                    name: seconds(name, length, dtype, trains=trains)
                    for name in ("reference", "fused")
                }
                row = {
                    "training": trains,
                    "dtype": str(dtype).removeprefix("torch."),
                    "length": length,
                    "reference_ms": round(taken["reference"] * 1e3, 3),
                    "fused_ms": round(taken["fused"] * 1e3, 3),
                    "reference_to_fused": round(taken["reference"] / taken["fused"], 3),
                }
                rows.append(row)
                print(row, flush=True)
    if arguments.json:
        write_atomic(arguments.json, to_json({"machine": environment(), "rows": rows}))


if __name__ == "__main__":
    main()
