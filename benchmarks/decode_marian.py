"""Beam search against transformers' MarianMTModel and CTranslate2, on the same weights.

A model of ours is trained for a moment, so that sentences have the lengths of sentences, and its
weights are given to both (`marian.py`, `ctranslate.py`), with the same sentences. The search is set
to be the same too: no length penalty (they normalise by different formulas), one limit for all
rows, the same tokens banned, in transformers `early_stopping=False` (its default). One difference
is left: a hypothesis that is cut at the limit competes with those that ended in theirs, and does
not in ours; such rows are counted.

    .venv-bench/bin/python benchmarks/run.py --only decode-marian
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contest import (
    Row,
    Work,
    lost_row,
    memory_row,
    once,
    remaining,
    rows_or_reason,
    serve,
    speed_row,
)
from marian import marian
from marian_work import (
    LIMIT,
    Given,
    its_translations,
    our_translations,
    their_translations,
    train,
)
from multi30k import MISSING, folder

from headway.base.runtime import keep_pages
from headway.decode.steps import Hypothesis

CASE, PEER = "decode-marian", "transformers MarianMTModel.generate"
PEERS = {
    "marian": f"{PEER}, as it is",
    "marian+kept": f"{PEER}, with pages kept",
    "ctranslate2": "CTranslate2 translate_batch, float32",
}
SENTENCES = {64: 1000, 16: 320, 1: 60}  # sentences in a batch -> how many are timed
TOLERANCE = 1e-3  # of logits, and of log-probabilities of translations that differ


@torch.no_grad()
def log_prob(given: Given, place: int, ids: list[int]) -> float:
    """Our model's log-probability of one translation, its end included."""
    source, real = given.sources.pad(np.array([place]), given.symbols["pad"])
    path = [*ids, given.symbols["eos"]]
    target = torch.tensor([[given.symbols["bos"], *path[:-1]]])
    log_probs = given.model(source, real, target).log_softmax(dim=-1)[0]
    return float(log_probs.gather(1, torch.tensor(path)[:, None]).double().sum())


def check(given: Given) -> dict[str, Any]:
    """Logits of both on a batch, and the translations of all sentences, at all batch sizes."""
    model, batches = marian(given.model, given.settings, given.symbols), given.batches(64, 10**9)
    middle = batches[len(batches) // 2]
    target = torch.cat((torch.full_like(middle.ids[:, :1], given.symbols["bos"]), middle.ids), 1)
    with torch.no_grad():
        mine = given.model(middle.ids, middle.real, target)
        other = model(
            input_ids=middle.ids, attention_mask=middle.real.long(), decoder_input_ids=target
        ).logits
    ours = our_translations(given, batches)
    smaller = [our_translations(given, given.batches(size, 10**9)) for size in (16, 1)]
    return {
        "logits": float((mine - other).abs().max()),
        "sentences": len(ours),
        "marian": _beside(given, ours, their_translations(given, model, batches)),
        "ctranslate2": _beside(given, ours, its_translations(given, given.ctranslate(), batches)),
        "equal_at_all_sizes": sum(
            all(other[place].ids == ours[place].ids for other in smaller) for place in ours
        ),
        "mean_length": float(np.mean([len(each.ids) for each in ours.values()])),
        "ended": sum(each.ended for each in ours.values()),
    }


def _beside(
    given: Given, ours: dict[int, Hypothesis], theirs: dict[int, list[int]]
) -> dict[str, Any]:
    """How many are equal, and how much likelier ours are where they are not."""
    # where theirs is cut at the limit: it may win there over one that ended, in ours it may not
    cut = [place for place in ours if ours[place].ended and len(theirs[place]) == LIMIT]
    differ = [place for place in ours if ours[place].ids != theirs[place] and place not in cut]
    gaps = [ours[place].log_prob - log_prob(given, place, theirs[place]) for place in differ]
    return {"equal": len(ours) - len(differ) - len(cut), "cut": len(cut), "gaps": gaps}


def rows(rounds: int) -> list[Row]:
    """Whether results are the same, and sentences a second and memory at three batch sizes."""
    if folder() is None:
        return [{"case": CASE, "peer": PEER, "reason": MISSING}]
    with tempfile.TemporaryDirectory() as place:
        once(_command("train", place))
        found = rows_or_reason(
            {"case": CASE, "peer": PEER}, lambda: _agreement(once(_command("check", place)))
        )
        for size in SENTENCES:
            about = {"case": f"{CASE}-{size}", "peer": PEER}
            found += rows_or_reason(about, _speed, place, size, rounds)
    return found


def _speed(place: str, size: int, rounds: int) -> list[Row]:
    commands = {name: _command(name, place, size) for name in ("ours", *PEERS)}
    turns, lost = remaining(commands, rounds=rounds)
    found = []
    for name, peer in PEERS.items():
        about = {"case": f"{CASE}-{size}", "peer": peer}
        if name in lost:
            found.append(lost_row(about, lost[name]))
            continue
        speed = speed_row(turns["ours"], turns[name])
        found.append(about | {"measure": f"sentences a second, of {SENTENCES[size]}"} | speed)
        found.append(about | {"measure": "largest memory of the process, MiB"})
        found[-1] |= memory_row(turns["ours"], turns[name])
    return found


def _agreement(told: dict[str, Any]) -> list[Row]:
    n = told["sentences"]
    about = {"case": CASE, "measure": "equal translations", "ours": n}
    found = []
    for name in ("marian", "ctranslate2"):
        beside = told[name]
        better = name == "ctranslate2"  # its search may end sooner, so that ours is the likelier
        worst = max((-gap if better else abs(gap) for gap in beside["gaps"]), default=0.0)
        row = about | {"peer": PEERS[name].split(",")[0], "theirs": beside["equal"]}
        row |= {"ratio": n / max(1, beside["equal"]), "largest_log_prob_gap": worst}
        found.append(row | {"cut_in_theirs": beside["cut"], "agrees": worst < TOLERANCE})
    found[0] |= {"largest_logit_difference": told["logits"], "mean_length": told["mean_length"]}
    found[0] |= {"ended": told["ended"]}
    found[0]["agrees"] &= told["logits"] < TOLERANCE
    same = told["equal_at_all_sizes"]
    own = about | {"peer": "our own at batches of 1, 16 and 64", "theirs": same}
    return [*found, own | {"ratio": n / max(1, same), "agrees": same == n}]


def _command(name: str, place: str, size: int = 64) -> list[str]:
    return [sys.executable, __file__, "--as", name, "--place", place, "--size", str(size)]


def main() -> None:
    """Be one of the contenders, or train for them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()

    def prepare_work() -> Work:
        if arguments.name == "train":
            train(arguments.place)
            return lambda: (0.0, {})
        given = Given(arguments.place)
        if arguments.name == "check":
            return lambda: (0.0, check(given))
        batches = given.batches(arguments.size, SENTENCES[arguments.size])
        if arguments.name == "marian+kept":  # ours is what `headway translate` does
            keep_pages()
        if arguments.name == "ours":
            return lambda: (len(our_translations(given, batches)) * 1.0, {})
        if arguments.name == "ctranslate2":
            other = given.ctranslate()
            return lambda: (len(its_translations(given, other, batches)) * 1.0, {})
        model = marian(given.model, given.settings, given.symbols)
        return lambda: (len(their_translations(given, model, batches)) * 1.0, {})

    serve(prepare_work)


if __name__ == "__main__":
    main()
