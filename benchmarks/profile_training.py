"""Where the seconds of a training step go, by kind of work.

    .venv-bench/bin/python benchmarks/profile_training.py --json benchmarks/results/profile.json

One thread, so that nobody waits for anybody; the tiny Transformer on Multi30k, 4,096 tokens a
batch. torch's profiler counts what its operations take; what is left of the step is Python and
NumPy (dropout's bytes, the batches).
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

import torch
from multi30k import Setting, our_steps, recipe
from torch.profiler import ProfilerActivity, profile

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment, keep_pages

BATCHES = 6
KINDS = {  # the first that an operation's name holds
    "matrix products": ("mm",),
    "softmax, exp and log": ("softmax", "exp", "log"),
    "embeddings and gathers": ("embedding", "index", "gather", "scatter"),
    "copies and changes of dtype": ("copy", "_to_copy", "clone", "contiguous", "cat"),
    "norms": ("layer_norm",),
    "optimiser": ("adam", "foreach", "norm", "Optimizer"),
    "element by element": (
        *("add", "mul", "sub", "div", "sum", "mean", "amax", "relu", "threshold"),
        *("clamp", "where", "fill", "zero", "neg", "masked"),
    ),
}


def kind_of(operation: str) -> str:
    """Which row of the table an operation belongs to."""
    name = operation.removeprefix("aten::")
    return next((kind for kind, words in KINDS.items() if any(w in name for w in words)), "other")


def shares(dtype: str) -> dict[str, float | dict[str, float]]:
    """Milliseconds of a step, by kind."""
    setting = Setting(recipe())
    trainer, batches = setting.trainer(dtype), setting.batches(BATCHES)
    our_steps(trainer, batches)
    began = time.perf_counter()
    tokens, _ = our_steps(trainer, batches)
    seconds = time.perf_counter() - began
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        our_steps(trainer, batches)
    found: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        found[kind_of(event.key)] += event.self_cpu_time_total / 1000 / BATCHES
    step = seconds / BATCHES * 1000
    found["Python and NumPy"] = max(0.0, step - sum(found.values()))
    ordered = sorted(found.items(), key=lambda each: -each[1])
    return {
        "milliseconds_a_step": round(step, 1),
        "target_tokens_a_second": round(tokens / seconds, 1),
        "milliseconds": {kind: round(each, 1) for kind, each in ordered},
    }


def main() -> None:
    """Profile both dtypes, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_pages()
    found = {dtype: shares(dtype) for dtype in ("bfloat16", "float32")}
    machine = environment()
    write_atomic(arguments.json, to_json({"machine": machine, "profile": found}))
    for dtype, each in found.items():
        print(dtype, each)


if __name__ == "__main__":
    main()
