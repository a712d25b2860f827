"""Training against torch.nn.Transformer: same batches, first weights, loss and optimiser.

Theirs is written the ordinary way: its modules, a mask of booleans, CrossEntropyLoss over the whole
(tokens, vocabulary) matrix, fused Adam, clipping. What is not ordinary: the two norms that
torch.nn.Transformer puts after post-norm layers are taken away, and one embedding serves all, so
that both compute the same function. Ours trains as `headway train` does.

    .venv-bench/bin/python benchmarks/run.py --only train-torch
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from statistics import median
from typing import Any

from contest import Row, Turn, Work, contest, memory_row, once, rows_or_reason, serve, speed_row
from multi30k import MISSING, Setting, folder, our_steps, recipe
from torch_peer import ordinary

from headway.base.runtime import keep_pages
from headway.training.probe import faster_dtype

CASE, PEER = "train-torch", "torch.nn.Transformer"
BATCHES = 4  # a turn; the same ones in each
CHECKED = 5  # steps over which the losses are compared
TOLERANCE = 1e-4
KINDS = {  # what is dropped; torch.nn.Transformer always drops attention weights too
    "": {"attention_dropout": 0.3},
    " without dropout of attention weights": {"attention_dropout": 0.0},
}
DTYPES = ("float32", "bfloat16")


def ours(setting: Setting) -> Work:
    """As `headway train` does it: pages kept, the dtype that is measured to be faster."""
    keep_pages()
    with tempfile.TemporaryDirectory() as cache:  # measured now, not remembered
        os.environ["XDG_CACHE_HOME"] = cache
        dtype = faster_dtype(setting.trainer("auto"))
    trainer, batches = setting.trainer(dtype), setting.batches(BATCHES)
    limit = setting.limit(batches, dtype)

    def work() -> tuple[float, dict[str, Any]]:
        tokens, loss = our_steps(trainer, batches)
        return tokens, {"dtype": dtype, "loss": loss, "limit": limit}

    return work


def theirs(setting: Setting, dtype: str, *, kept: bool) -> Work:
    """The ordinary loop; `kept` gives it our trick with the pages."""
    if kept:
        keep_pages()
    trainer, batches = ordinary(setting, dtype), setting.batches(BATCHES)

    def work() -> tuple[float, dict[str, Any]]:
        tokens, losses = 0, 0.0
        for rows in batches:
            batch = setting.tensors(rows)
            n = int(batch.target_real.sum())
            losses += trainer.step(batch) * n
            tokens += n
        return tokens, {"dtype": dtype, "loss": losses / tokens}

    return work


def losses(setting: Setting) -> tuple[list[float], list[float]]:
    """Loss of each of the first steps, ours and theirs, in float32."""
    one, other = setting.trainer("float32"), ordinary(setting, "float32")
    batches = setting.batches(CHECKED)
    return (
        [our_steps(one, [rows])[1] for rows in batches],
        [other.step(setting.tensors(rows)) for rows in batches],
    )


def rows(rounds: int) -> list[Row]:
    """Speed and memory against theirs, as it is and with pages kept; losses."""
    if folder() is None:
        return [{"case": CASE, "peer": PEER, "reason": MISSING}]
    found = []
    for kind in KINDS:
        about = {"case": CASE + kind.replace(" ", "-"), "peer": PEER}
        found += rows_or_reason(about, _speed, about["case"], kind, rounds)
    return found + rows_or_reason({"case": CASE, "peer": PEER}, _agreement)


def _agreement() -> list[Row]:
    """Whether both have the same losses."""
    told = once(_command("losses", ""))
    pairs = list(zip(told["ours"], told["theirs"], strict=True))
    apart = max(abs(one - other) / other for one, other in pairs)
    return [
        {
            "case": CASE,
            "peer": PEER,
            "measure": f"loss of step {CHECKED}, float32, no dropout",
            "ours": pairs[-1][0],
            "theirs": pairs[-1][1],
            "ratio": pairs[-1][0] / pairs[-1][1],
            "largest_relative_difference": apart,
            "agrees": apart < TOLERANCE,
        },
    ]


def _speed(case: str, kind: str, rounds: int) -> list[Row]:
    """Against the better dtype of theirs, and as it is against float32, which is what they write
    who give dtypes no thought.
    """
    names = [f"{dtype}{kept}" for kept in ("", "+kept") for dtype in DTYPES]
    turns = contest({name: _command(name, kind) for name in ("ours", *names)}, rounds=rounds)
    found = []
    for kept, words in (("", "as it is"), ("+kept", "with pages kept")):
        rates = {dtype: median(turn.rate for turn in turns[dtype + kept]) for dtype in DTYPES}
        better = max(rates, key=lambda dtype: rates[dtype])
        dtypes = [better] if kept or better == "float32" else [better, "float32"]
        for dtype in dtypes:
            about = {"case": case, "peer": f"{PEER}, {dtype} {words}"}
            found += _beside(about, turns["ours"], turns[dtype + kept], rates)
    return found


def _beside(about: Row, mine: list[Turn], other: list[Turn], rates: dict[str, float]) -> list[Row]:
    speed = speed_row(mine, other, limit=mine[-1].told["limit"])
    speed |= {"ours_dtype": mine[-1].told["dtype"], "theirs_by_dtype": _rounded(rates)}
    speed |= {"losses_of_last_round": [_loss(mine), _loss(other)]}
    memory = {"measure": "largest memory of the process, MiB"} | memory_row(mine, other)
    return [about | {"measure": "target tokens a second"} | speed, about | memory]


def _rounded(rates: dict[str, float]) -> dict[str, float]:
    return {dtype: round(rate, 1) for dtype, rate in rates.items()}


def _loss(turns: list[Turn]) -> float:
    return round(turns[-1].told["loss"], 4)


def _command(name: str, kind: str) -> list[str]:
    return [sys.executable, __file__, "--as", name, "--kind", kind]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--kind", choices=[*KINDS], default="")
    arguments = parser.parse_args()

    def prepare_work() -> Work:
        checks = arguments.name == "losses"
        dropped = {"dropout": 0.0, "attention_dropout": 0.0} if checks else KINDS[arguments.kind]
        # checked at rates at which the weights move within a few steps
        settings = recipe(model=dropped, warmup=10) if checks else recipe(model=dropped)
        setting = Setting(settings)
        if checks:
            return lambda: (0.0, dict(zip(("ours", "theirs"), losses(setting), strict=True)))
        if arguments.name == "ours":
            return ours(setting)
        dtype, _, kept = arguments.name.partition("+")
        return theirs(setting, dtype, kept=bool(kept))

    serve(prepare_work)


if __name__ == "__main__":
    main()
