"""Training a GPT of 10 million parameters at context 256, against nanoGPT, the Trainer and litgpt.

    git clone https://github.com/karpathy/nanoGPT
    NANOGPT=nanoGPT .venv-bench/bin/python benchmarks/run.py --only train-gpt

The model is that of nanoGPT's config/train_shakespeare_char.py (6 layers, 6 heads, width 384), the
text the sources of the interpreter as bytes; all are given the same batches of 16 rows. nanoGPT is
its model file as it is with its loop, which on a CPU is float32; the same under autocast to
bfloat16 stands beside it, and the better counts. transformers' is GPT2LMHeadModel with its Trainer,
litgpt's its GPT with the loss that it trains with; both in the better dtype too. Each peer is
measured as it is and with our trick of the pages, and is built once: a turn is steps of a training
that goes on. Ours trains as `headway train` does. Without dropout and with nanoGPT's 0.2, which
litgpt's model does not have.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from statistics import median
from typing import Any

from contest import Row, Turn, Work, contest, memory_row, once, rows_or_reason, serve, speed_row
from gpt_peers import PEERS, WITHOUT_DROPOUT, absent, nanogpt
from gpt_setting import BATCHES, LENGTH, ROWS, Given, V
from limits import text_flops, training_limit

from headway.base.runtime import keep_pages
from headway.training.loop import Trainer
from headway.training.probe import faster_dtype
from headway.training.state import Window

CASE = "train-gpt"
CHECKED, TOLERANCE = 5, 1e-4
DROPOUTS = (0.0, 0.2)
DTYPES = ("float32", "bfloat16")


def ours(given: Given) -> Work:
    """As `headway train` does it: pages kept, the dtype that is measured to be faster."""
    keep_pages()
    with tempfile.TemporaryDirectory() as cache:  # measured now, not remembered
        os.environ["XDG_CACHE_HOME"] = cache
        dtype = faster_dtype(given.trainer("auto"))
    trainer = given.trainer(dtype)
    limit = training_limit(text_flops(given.settings, V, LENGTH), dtype)

    def work() -> tuple[float, dict[str, Any]]:
        loss = _our_loss(given, trainer, BATCHES)
        return BATCHES * ROWS * LENGTH, {"dtype": dtype, "loss": loss, "limit": limit}

    return work


def _our_loss(given: Given, trainer: Trainer, n: int) -> float:
    feed = iter([(0, 0, rows) for rows in given.batches.epoch(0)[:n]])
    trainer.state.window = Window()
    for _ in range(n):
        trainer.advance(feed)
    return trainer.state.window.nll / trainer.state.window.targets


def losses() -> dict[str, list[float]]:
    """Loss of each of the first steps, ours and nanoGPT's, in float32 without dropout."""
    given = Given(0.0)
    mine, step = given.trainer("float32"), nanogpt(given, "float32")
    feed = given.batches.epoch(0)[:CHECKED]
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for rows, (ids, following) in zip(feed, given.tensors(CHECKED), strict=True):
        mine.state.window = Window()
        mine.advance(iter([(0, 0, rows)]))
        found["ours"].append(mine.state.window.nll / mine.state.window.targets)
        found["theirs"].append(step(ids, following))
    return found


def rows(rounds: int) -> list[Row]:
    """Tokens a second and memory against each peer in its better dtype; losses beside nanoGPT's."""
    gone = absent()
    found: list[Row] = [{"case": CASE, "peer": peer, "reason": why} for peer, why in gone.items()]
    for dropout in DROPOUTS:
        for peer in (peer for peer in PEERS if peer not in gone):
            if dropout and peer in WITHOUT_DROPOUT:
                why = "its model has no dropout"
                found.append({"case": f"{CASE}-dropout-{dropout}", "peer": peer, "reason": why})
            else:
                about = {"case": f"{CASE}-dropout-{dropout}", "peer": peer}
                found += rows_or_reason(about, _speed, peer, dropout, rounds)
    if "nanoGPT" not in gone:
        found += rows_or_reason({"case": CASE, "peer": "nanoGPT"}, lambda: [_agreement()])
    return found


def _speed(peer: str, dropout: float, rounds: int) -> list[Row]:
    """A peer as it is, and with pages kept, beside ours."""
    ways = {"": "as it is", "+kept": "with pages kept"}
    names = [f"{peer}+{dtype}{kept}" for kept in ways for dtype in DTYPES]
    turns = contest({name: _command(name, dropout) for name in ("ours", *names)}, rounds=rounds)
    found = []
    for kept, words in ways.items():
        each = {dtype: turns[f"{peer}+{dtype}{kept}"] for dtype in DTYPES}
        rates = {dtype: median(turn.rate for turn in each[dtype]) for dtype in DTYPES}
        better = max(rates, key=lambda dtype: rates[dtype])
        mine, other = turns["ours"], each[better]
        about = {"case": f"{CASE}-dropout-{dropout}", "peer": f"{peer}, {better} {words}"}
        speed = speed_row(mine, other, limit=mine[-1].told["limit"])
        speed["ours_dtype"] = mine[-1].told["dtype"]
        speed["theirs_by_dtype"] = {dtype: round(rate, 1) for dtype, rate in rates.items()}
        speed["losses_of_last_round"] = [_last_loss(mine), _last_loss(other)]
        found.append(about | {"measure": "tokens a second"} | speed)
        found.append(about | {"measure": "largest memory of the process, MiB"})
        found[-1] |= memory_row(mine, other)
    return found


def _last_loss(turns: list[Turn]) -> float:
    return round(turns[-1].told["loss"], 4)


def _agreement() -> Row:
    """Whether nanoGPT's steps have our losses."""
    told = once(_command("losses", 0.0))
    pairs = list(zip(told["ours"], told["theirs"], strict=True))
    apart = max(abs(one - other) / other for one, other in pairs)
    return {
        "case": CASE,
        "peer": "nanoGPT",
        "measure": f"loss of step {CHECKED}, float32, no dropout",
        "ours": pairs[-1][0],
        "theirs": pairs[-1][1],
        "ratio": pairs[-1][0] / pairs[-1][1],
        "largest_relative_difference": apart,
        "agrees": apart < TOLERANCE,
    }


def _command(name: str, dropout: float) -> list[str]:
    return [sys.executable, __file__, "--as", name, "--dropout", str(dropout)]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--dropout", type=float, default=0.0)
    arguments = parser.parse_args()

    def prepare() -> Work:
        if arguments.name == "losses":
            return lambda: (0.0, losses())
        given = Given(arguments.dropout)
        if arguments.name == "ours":
            return ours(given)
        peer, dtype, *kept = arguments.name.split("+")
        if kept:  # our trick with the pages
            keep_pages()
        return PEERS[peer](given, dtype)

    serve(prepare)


if __name__ == "__main__":
    main()
