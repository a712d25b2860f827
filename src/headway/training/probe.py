"""Which dtype trains faster on this machine: measured once, remembered, never asked of a name."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import time
from pathlib import Path

import torch

from headway.base.errors import UserError
from headway.base.files import cached, write_atomic
from headway.base.runtime import processor
from headway.training.loop import NotFinite, Trainer
from headway.training.utilisation import product_rate

DTYPES = ("float32", "bfloat16")
SIDE = 256  # of products that tell where bfloat16 is not worth a trial: it can take minutes
STEPS = 3  # timed after one to warm up; the fastest counts, since a busy machine only adds time


def faster_dtype(trainer: Trainer) -> str:
    """ "float32" or "bfloat16", whichever takes less time for a step of this training.

    The answer is kept for this machine, torch and model in the user's cache folder. The trainer's
    model, optimiser and state are left as they were.
    """
    known = cached("dtype.json")
    answers = _read(known)
    key = _key(trainer)
    if key not in answers:
        answers[key] = _faster(trainer)
        with contextlib.suppress(OSError, UserError):  # then the next training measures again
            write_atomic(known, json.dumps(answers, indent=1, sort_keys=True))
    return answers[key]


def _faster(trainer: Trainer) -> str:
    rates = {
        dtype: product_rate(SIDE, getattr(torch, dtype), trainer.device, 0.0) for dtype in DTYPES
    }
    if 2 * rates["bfloat16"] < rates["float32"]:  # a processor that has no instructions for it
        return "float32"
    seconds = {dtype: _seconds(trainer, dtype) for dtype in DTYPES}
    return min(seconds, key=lambda dtype: seconds[dtype])


def _seconds(trainer: Trainer, dtype: str) -> float:
    settings = trainer.settings.model_copy(update={"dtype": dtype, "steps": STEPS + 1})
    trial = Trainer(
        copy.deepcopy(trainer.model),
        settings,
        trainer.batches,
        trainer.objective,
        seed=trainer.seed,
        device=trainer.device,
    )
    batches = trial.batches.after(0, 0)
    taken = []
    for _ in range(STEPS + 1):
        began, seen = time.perf_counter(), trial.state.tokens
        try:
            trial.advance(batches)
        except NotFinite:
            return math.inf  # the training itself will tell, if float32 has the same fate
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        taken.append((time.perf_counter() - began) / max(1, trial.state.tokens - seen))
    return min(taken[1:])


def _key(trainer: Trainer) -> str:
    facts = (
        torch.__version__,
        processor(),
        str(trainer.device),
        torch.get_num_threads(),
        trainer.settings.batch_tokens,
        trainer.settings.optimizer,
        trainer.settings.checkpoint_activations,
        _of_batches(trainer),
        repr(trainer.model),
        [(name, tuple(weight.shape)) for name, weight in trainer.model.named_parameters()],
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _of_batches(trainer: Trainer) -> tuple[int, int]:
    """Rows of a batch and tokens of a row as powers of 2: with another seed they are nearly so."""
    rows = trainer.batches.epoch(0)[0]
    tokens = trainer.batches.batch(0, rows).tokens
    return round(math.log2(len(rows))), round(math.log2(max(1, tokens / len(rows))))


def _read(path: Path) -> dict[str, str]:
    try:
        answers = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(answers, dict):
        return {}
    return {key: dtype for key, dtype in answers.items() if dtype in DTYPES}
