"""Processes that train toys together; the first one writes what came of it.

    python tests/runs/rank_jobs.py FOLDER PORT PORT …

Two of four processes train each toy together, and alone; then all four train some. `recipe.json` in
the folder is a run's: two save it, four go on with it. test_ranks.py looks at what came of it. The
processes are forked, so that each one costs milliseconds and not an import of torch.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import headway
import headway.training.ranks
from headway.base.errors import UserError
from headway.batches.by_length import AnswerBatches, FramedRows, LabelBatches
from headway.batches.masked import MaskedBatches, Masking, Vocabulary
from headway.batches.order import Batches
from headway.batches.packed import PackedBatches, Packing
from headway.batches.pairs import EncodedPairs, EncodedSide, PairBatches
from headway.batches.sentences import SentenceRows, marked
from headway.checkpoint.steps import save_shards
from headway.models.build import build, build_classifier, build_decoder, build_masked
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    RecurrentSettings,
    TransformerSettings,
)
from headway.settings.training import FineTuneSettings
from headway.training.fine_tuning import PredictLabel, adapt
from headway.training.loop import Trainer
from headway.training.objectives import PredictMasked, PredictNext, PredictTarget
from headway.training.ranks import ALONE, Ranks, joined, whole

V, PAD, BOS, EOS = 23, 0, 2, 3
CPU = torch.device("cpu")
SIZES: dict[str, Any] = {"d_model": 16, "d_feed_forward": 24, "n_heads": 2, "max_length": 16}
SPLIT = [[0, 1, 2], [3]]  # rows of two batches: neither is two or four times as many as the other
WAYS = ("replicate", "shard")
# encoders that do not look at everything: a global token beside windows; mixtures of all keys
REACHES: dict[str, dict[str, Any]] = {
    "windows": {"reach": [4, 0], "n_global": 1},
    "mixtures": {"n_keys": 4},
    "one mixture": {"n_keys": 4, "mixes": "layers"},
}
# what a toy is trained by: steps of one batch, split by rows; of two, dealt whole, with dropout
HOW: dict[str, dict[str, Any]] = {
    "split": {"accumulate": 1},
    "dealt": {"accumulate": 2},
    "muon": {"accumulate": 2, "optimizer": "muon", "weight_decay": 0.1},
    "recomputed": {"accumulate": 2, "checkpoint_activations": True},
    "updates": {"accumulate": 2, "checkpoint_activations": True, "lora": {"rank": 2}},
}


def side(random: np.random.Generator, n: int = 12, last: tuple[int, ...] = (EOS,)) -> EncodedSide:
    lengths = random.integers(2, 9, n)
    return EncodedSide.of([[*random.integers(5, V, length), *last] for length in lengths])


def toy(kind: str, dropout: float) -> tuple[nn.Module, Batches, Any]:
    """A model, batches and an objective of each kind that there is."""
    random = np.random.default_rng(1)
    one = side(random)
    if kind in ("translation", "recurrent"):
        pairs = EncodedPairs(one, side(random))
        settings: Any = RecurrentSettings(
            d_embedding=8, d_hidden=10, score="additive", dropout=dropout
        )
        if kind == "translation":
            settings = TransformerSettings(
                **SIZES, n_encoder_layers=2, n_decoder_layers=2, dropout=dropout
            )
        model: nn.Module = build(settings, n_source=V, n_target=V, seed=1)
        return model, PairBatches(pairs, 40, 1, pad=PAD, bos=BOS), PredictTarget(0.1)
    if kind in ("language", "answers"):
        model = build_decoder(DecoderSettings(**SIZES, n_layers=2, dropout=dropout), n_tokens=V)
        if kind == "language":
            packing = Packing(one, 6, seed=(1,))
            return model, PackedBatches([packing], [1.0], 24, 1, PAD), PredictNext(0.0)
        marks = [[0] * (length // 2) + [1] * (length - length // 2) for length in one.lengths]
        return model, AnswerBatches(one, EncodedSide.of(marks), 3, 1, PAD), PredictNext(0.0)
    encoder = EncoderSettings(**SIZES, n_layers=2, dropout=dropout, **REACHES.get(kind, {}))
    if kind in ("labels", "regression"):
        kinds = EncodedSide.of([[0] * length for length in one.lengths])
        regression = kind == "regression"
        labels = np.arange(12) % 3 - (0.5 if regression else 0)
        batches = LabelBatches(FramedRows(one, kinds), labels, 3, 1, pad=PAD)
        model = build_classifier(encoder, n_tokens=V, n_classes=1 if regression else 3)
        return model, batches, PredictLabel(0.0, regression=regression)
    words = Vocabulary(2, 3, PAD, 4, np.arange(V) < 5, np.ones(V, bool), np.arange(5, V))
    texts = [marked(random.integers(5, V, (3, 4)).tolist()) for _ in range(12)]
    rows = SentenceRows(EncodedSide.of(texts), 12, seed=(1,), pairs=True)
    hidden = MaskedBatches([rows], [1.0], 48, 1, PAD, Masking(words, 0.15, False))
    return build_masked(encoder, n_tokens=V), hidden, PredictMasked(0.0)


def steps(accumulate: int) -> Iterator[tuple[int, int, Any]]:
    """Two steps; a batch of fewer rows than ranks is in each, or is one."""
    chosen = SPLIT if accumulate == 1 else [*SPLIT, [4, 5], [6, 7, 8]]
    return iter([(0, place + 1, np.array(rows)) for place, rows in enumerate(chosen)])


def trained(kind: str, how: str, way: str, ranks: Ranks) -> dict[str, Tensor]:
    """What two steps make of a toy: its weights, and all that is told of the loss."""
    model, batches, objective = toy(kind, 0.0 if how == "split" else 0.2)
    given = {"warmup": 0, "learning_rate": 1e-2, "eps": 1e-2, "clip": 0.5, "dtype": "float32"}
    kinds = {"optimizer": "adamw", "weight_decay": 0.1, "parallel": way}
    settings = FineTuneSettings(**{"steps": 2, **given, **kinds, **HOW[how]})
    adapt(model, settings, seed=1)
    found = Trainer(model, settings, batches, objective, seed=1, device=CPU, ranks=ranks)
    taken = steps(settings.accumulate)
    found.advance(taken)
    found.advance(taken)
    window = found.state.window
    told = [window.objective, window.nll, window.targets, window.tokens, window.gradient_norm]
    told += [value for pair in window.others.values() for value in pair]
    weights = {name: whole(w.detach()).clone() for name, w in model.named_parameters()}
    return {"told": torch.tensor(told, dtype=torch.float64), **weights}


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference, of what is told in shares."""
    assert one.keys() == other.keys()
    told = (one["told"] / other["told"] - 1).abs().max()
    return max(float(told), *(float((one[n] - other[n]).abs().max()) for n in one if n != "told"))


def jobs(size: int) -> Iterator[tuple[str, str]]:
    if size == 4:  # two batches, each split in two
        yield from (("translation", "split"), ("masked", "split"))
        return
    for kind in ("language", "masked", "labels", "translation", "recurrent", "answers"):
        yield from ((kind, "split"), (kind, "dealt"))
    yield from (("translation", "muon"), ("recurrent", "muon"))
    yield from (("translation", "recomputed"), ("answers", "updates"))
    yield from (("regression", "split"), ("windows", "split"), ("windows", "dealt"))
    yield from (("mixtures", "dealt"), ("one mixture", "split"))


def compared(ranks: Ranks) -> dict[str, float]:
    """How far each toy is from the one that was trained alone."""
    found = {}
    for kind, how in jobs(ranks.size):
        alone = trained(kind, how, "replicate", ALONE)
        for way in WAYS:
            found[f"{kind} {how} {way}"] = apart(trained(kind, how, way, ranks), alone)
    return found


def silence(rank: int) -> str:
    """What is said of a rank that is there and does not answer."""
    headway.training.ranks.ANSWER = datetime.timedelta(seconds=2)
    try:
        with joined(CPU) as (ranks, _):
            if rank:
                time.sleep(5)
            ranks.total([1.0])
    except UserError as error:
        return str(error)
    return ""


def go_on(run: Path, way: str) -> None:
    """Go on with a run to its last step, in this way."""
    headway.train(None, out=run, resume=True, train={"steps": 8, "parallel": way})


def resumed(run: Path) -> str:
    """What is said where another rank goes on from another checkpoint."""
    try:
        go_on(run, "replicate")
    except UserError as error:
        return str(error)
    return ""


def save(folder: Path, name: str, rank: int, room: int = 0) -> None:
    """Save toy shards where a file may have `room` bytes, if given; each writes what is said."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    said, tensors = "", {"weight": torch.zeros(1000)}
    try:
        with joined(CPU) as (ranks, _):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room or soft, hard))
            save_shards(folder / name, 1, tensors=tensors, state={}, keep=1, ranks=ranks)
    except (UserError, OSError) as error:
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (folder / f"{name}-said-{rank}").write_text(said, encoding="utf-8")


def work(folder: Path, rank: int, ports: Iterator[str]) -> None:
    """What one of the processes does."""
    recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}

    def among(size: int) -> bool:
        """Be one of so many; whether this process is."""
        os.environ |= {"WORLD_SIZE": str(size), "MASTER_PORT": next(ports)}
        return rank < size

    found: dict[str, Any] = {}
    if among(2):
        with joined(CPU) as (ranks, _):
            found["two"] = compared(ranks)
    if among(2):
        save(folder, "full", rank, room=100)
    if among(2):
        save(folder, f"disk-{rank}", rank)
    if among(2):
        headway.train(recipe, out=folder / "parts", train={"steps": 4})
    if among(2):
        copied = {"steps": 4, "parallel": "replicate"}
        headway.train(recipe, out=folder / "copies", train=copied)
    if rank == 0:
        begun = {"parts": ("four", "alone", "stale", "copied"), "copies": ("parted", "four copies")}
        for source, names in begun.items():
            for name in names:
                shutil.copytree(folder / source, folder / name)
        shutil.rmtree(folder / "stale" / "checkpoints" / "step-4")
    if among(2):
        found["stale"] = resumed(folder / ("stale" if rank else "parts"))
    for name, way in (("copied", "replicate"), ("parted", "shard")):
        if among(2):
            go_on(folder / name, way)
    if among(4):
        with joined(CPU) as (ranks, _):
            found["four"] = compared(ranks)
    for name, way in (("four", "shard"), ("four copies", "replicate")):
        if among(4):
            go_on(folder / name, way)
    if among(2):
        found["silence"] = silence(rank)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


def main(folder: Path, ports: list[str]) -> None:
    torch.set_num_threads(1)
    children = []
    for rank in range(4):
        children.append(os.fork())
        if not children[-1]:
            try:
                work(folder, rank, iter(ports))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    for _ in children:
        if os.wait()[1]:  # the others would wait for it at their next meeting
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            sys.exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
