"""Training as it is against the same network through torch.compile: does compiling pay here?

What is compiled is encoder and decoder; the loss is a function of its own that torch.compile would
leave as it is. Lengths differ from batch to batch, so shapes are dynamic. The seconds of compiling
are told beside the speed. Dropout draws its bytes by NumPy, which cuts the graph: hence the second
kind.

    .venv-bench/bin/python benchmarks/run.py --only train-compiled
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import torch
from contest import Row, Work, contest, memory_row, rows_or_reason, serve, speed_row
from multi30k import MISSING, Setting, folder, our_steps, recipe

from headway.base.runtime import keep_pages

CASE, PEER = "train-compiled", "the same through torch.compile"
BATCHES = 4
KINDS: dict[str, dict[str, Any]] = {
    "": {},
    " without dropout": {"dropout": 0.0, "attention_dropout": 0.0},
}


def trained(setting: Setting, *, compiled: bool) -> Work:
    """Our trainer in bfloat16, its encoder and decoder compiled or not."""
    keep_pages()
    trainer, batches = setting.trainer("bfloat16"), setting.batches(BATCHES)
    limit, seconds = setting.limit(batches, "bfloat16"), 0.0
    if compiled:
        model: Any = trainer.model
        model.encode = torch.compile(model.encode, dynamic=True)
        model.decode = torch.compile(model.decode, dynamic=True)
        began = time.perf_counter()
        our_steps(trainer, batches)
        first = time.perf_counter() - began
        began = time.perf_counter()
        our_steps(trainer, batches)
        seconds = first - (time.perf_counter() - began)

    def work() -> tuple[float, dict[str, Any]]:
        tokens, loss = our_steps(trainer, batches)
        return tokens, {"loss": loss, "limit": limit, "compile_seconds": round(seconds, 1)}

    return work


def rows(rounds: int) -> list[Row]:
    """Speed and memory, with and without dropout."""
    if folder() is None:
        return [{"case": CASE, "peer": PEER, "reason": MISSING}]
    found: list[Row] = []
    for kind in KINDS:
        about = {"case": CASE + kind.replace(" ", "-"), "peer": PEER}
        found += rows_or_reason(about, _speed, about, kind, rounds)
    return found


def _speed(about: Row, kind: str, rounds: int) -> list[Row]:
    command = [sys.executable, __file__, "--kind", kind, "--as"]
    turns = contest({name: [*command, name] for name in ("plain", "compiled")}, rounds=rounds)
    mine, other = turns["plain"], turns["compiled"]
    speed = speed_row(mine, other, limit=mine[-1].told["limit"])
    speed["theirs_compile_seconds"] = other[-1].told["compile_seconds"]
    memory = {"measure": "largest memory of the process, MiB"} | memory_row(mine, other)
    return [about | {"measure": "target tokens a second"} | speed, about | memory]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", choices=("plain", "compiled"), required=True)
    parser.add_argument("--kind", choices=[*KINDS], default="")
    arguments = parser.parse_args()
    model = KINDS[arguments.kind]
    serve(lambda: trained(Setting(recipe(model=model)), compiled=arguments.name == "compiled"))


if __name__ == "__main__":
    main()
