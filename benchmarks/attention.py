"""Where torch's fused attention overtakes plain products on this machine's CPU, and is overtaken.

    .venv/bin/python benchmarks/attention.py --json benchmarks/results/attention.json

Times both implementations of `attend` side by side, for inference and for training (forward and
backward), at a constant number of tokens, and for a next token (one query a text, all keys before
it), and prints the ratio. So it does with the fused kernel and blocks in rows of several documents,
of which blocks skip what no document shares. The crossing points in `headway/nn/attend.py` are read
off this, and that the one query of one text is for the fused kernel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment, keep_pages
from headway.nn.attend import attend
from headway.nn.scores import make_score
from headway.nn.visibility import Visibility, causal, documents, padding

HEADS, WIDTH, TOKENS = 4, 32, 8192
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
TEXTS = (1, 2, 8)  # that are written at a time
CALLS = 100  # one takes microseconds
PACKED = (1024, 2048, 4096, 8192)  # tokens of a row of documents
DOCUMENTS = (300, 1000)  # tokens of one


def padded(rows: int, length: int) -> Visibility:
    """Texts of half the length and more."""
    return padding(torch.arange(length) < torch.randint(length // 2, length + 1, (rows, 1)))


def packed(rows: int, length: int, *, document: int) -> Visibility:
    """Documents end to end, all of one length."""
    return causal() & documents((torch.arange(length) // document).expand(rows, -1))


def seconds(
    implementation: str,
    length: int,
    dtype: torch.dtype,
    *,
    trains: bool,
    make: Callable[[int, int], Visibility] = padded,
    times: int = 7,
) -> float:
    """The median time of one attention over TOKENS tokens in rows of `length`, mask included."""
    rows = max(1, TOKENS // length)
    score = make_score("scaled_dot", WIDTH, WIDTH, n_heads=HEADS)
    shape = (rows, HEADS, length, WIDTH)
    parts = [torch.randn(shape, dtype=dtype, requires_grad=trains) for _ in range(3)]
    gradient = torch.randn(shape, dtype=dtype)  # of a sum it would be a view, which is slow

    def once() -> float:
        began = time.perf_counter()
        with torch.set_grad_enabled(trains):
            seen = make(rows, length)
            result = attend(*parts, score=score, visibility=seen, implementation=implementation)
            if trains:
                result.backward(gradient)
        return time.perf_counter() - began

    once()
    return median(once() for _ in range(times))


@torch.inference_mode()
def next_token(implementation: str, texts: int, keys: int, dtype: torch.dtype) -> float:
    """The median time of the attention of one query of each text to so many keys."""
    score = make_score("scaled_dot", WIDTH, WIDTH, n_heads=HEADS)
    parts = [torch.randn(texts, HEADS, n, WIDTH, dtype=dtype) for n in (1, keys, keys)]

    def some() -> float:
        began = time.perf_counter()
        for _ in range(CALLS):
            attend(*parts, score=score, visibility=causal(), implementation=implementation)
        return (time.perf_counter() - began) / CALLS

    some()
    return median(some() for _ in range(7))


def compared(take: Callable[[str], float], one: str, other: str, **what: Any) -> dict[str, Any]:
    """Both implementations' times, and the ratio."""
    first, second = take(one), take(other)
    row = what | {
        f"{one}_ms": round(first * 1e3, 4),
        f"{other}_ms": round(second * 1e3, 4),
        f"{one}_to_{other}": round(first / second, 3),
    }
    print(row, flush=True)
    return row


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    keep_pages()
    torch.manual_seed(0)
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    rows = [
        compared(
            partial(seconds, length=length, dtype=dtype, trains=trains),
            *("reference", "fused"),
            training=trains,
            dtype=name,
            length=length,
        )
        for trains, (name, dtype), length in product((False, True), dtypes.items(), LENGTHS)
    ]
    next_tokens = [
        compared(
            partial(next_token, texts=texts, keys=keys, dtype=dtype),
            *("reference", "fused"),
            texts=texts,
            dtype=name,
            keys=keys,
        )
        for texts, (name, dtype), keys in product(TEXTS, dtypes.items(), LENGTHS)
    ]
    packs = [
        compared(
            partial(
                seconds,
                length=length,
                dtype=torch.float32,
                trains=trains,
                make=partial(packed, document=document),
                times=3,
            ),
            *("fused", "blockwise"),
            training=trains,
            length=length,
            document=document,
        )
        for trains, length, document in product((False, True), PACKED, DOCUMENTS)
    ]
    if arguments.json:
        found = {"machine": environment(), "rows": rows, "next_tokens": next_tokens}
        found["packed"] = packs
        write_atomic(arguments.json, to_json(found))


if __name__ == "__main__":
    main()
