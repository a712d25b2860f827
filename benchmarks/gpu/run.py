"""What a GPU does with Headway, in ten minutes: training, long attention, decoding.

    .venv/bin/python benchmarks/gpu/run.py --model SmolLM2.gguf --json benchmarks/results/gpu.json

`train`: GPT-2 124M in bfloat16 at context 1,024, as `headway train` steps, as it is and through
torch.compile: tokens a second, and the FLOPs of these, counted from the settings, as a share of
what matrix products reach here (model FLOP utilisation). `attention`: at 16,384 tokens, what
`auto` takes beside each of torch's kernels. `decode`: greedy tokens a second of one text and of 64
together. Each part is told as it ends, and what cannot be measured with the reason.
`--device cpu --small` tries the script itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import headway
from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment, pick_device
from headway.batches.packed import PackedBatches, Packing
from headway.batches.pairs import EncodedSide
from headway.models.build import build_decoder
from headway.nn.attend import Implementation, attend
from headway.nn.scores import make_score
from headway.nn.visibility import Visibility, causal, documents
from headway.runs.language_model import LanguageModel, Sampling
from headway.scaling.machine import measure
from headway.settings.counting import forward_flops
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS
from headway.settings.training import TextTrainSettings
from headway.training.fine_tuning import adapt
from headway.training.loop import Trainer
from headway.training.objectives import PredictNext

VOCABULARY = 50_257
WAYS = ("plain", "compiled")
SIZES = {  # rows and length of a training batch, steps; tokens of attention; texts and new tokens
    False: {"rows": 16, "length": 1024, "steps": 30, "tokens": 16_384, "texts": 64, "new": 128},
    True: {"rows": 2, "length": 32, "steps": 2, "tokens": 256, "texts": 4, "new": 4},
}


def timed(work: Callable[[], Any], device: torch.device, rounds: int = 5) -> float:
    """Seconds of the middle round, after two that do not count."""
    seconds = []
    for number in range(rounds + 2):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        if number >= 2:
            seconds.append(time.perf_counter() - began)
    return median(seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def train(device: torch.device, sizes: dict[str, int], rate: float) -> dict[str, Any]:
    """GPT-2 124M on random tokens, as it is and compiled; `rate`: GFLOP/s in bfloat16."""
    return {name: _train(device, sizes, rate, compiles=name == "compiled") for name in WAYS}


def _train(
    device: torch.device, sizes: dict[str, int], rate: float, *, compiles: bool
) -> dict[str, Any]:
    row: dict[str, Any] = dict(PRESETS["gpt2"])
    row |= {"dropout": 0.0, "attention_dropout": 0.0}
    settings = DecoderSettings.model_validate(row)
    length = sizes["length"]
    ids = np.random.default_rng(1).integers(VOCABULARY, size=sizes["rows"] * length * 4 + 1)
    text = Packing(EncodedSide.of([ids.tolist()]), length, seed=None)
    batches = PackedBatches([text], [1.0], sizes["rows"] * length, seed=1, pad=0)
    model = build_decoder(settings, n_tokens=VOCABULARY, seed=1).to(device)
    how = TextTrainSettings(
        steps=10_000,
        batch_tokens=sizes["rows"] * length,
        dtype="bfloat16",
        compile=compiles,
    )
    adapt(model, how, seed=1)
    trainer = Trainer(
        model,
        how,
        batches,
        PredictNext(0.0),
        seed=1,
        device=device,
    )
    feed = batches.after(0, 0)
    began = time.perf_counter()
    trainer.advance(feed)
    _wait(device)
    first = time.perf_counter() - began
    seconds = timed(lambda: trainer.advance(feed), device, rounds=sizes["steps"])
    tokens = sizes["rows"] * length / seconds
    flops = 3.0 * sum(forward_flops(settings, VOCABULARY, length).values())
    return {
        "seconds_of_first_step": round(first, 1),
        "tokens_per_s": round(tokens),
        "flops_a_token": flops,
        "utilisation_of_measured_products": round(tokens * flops / (rate * 1e9), 3),
        "peak_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }


def attention(device: torch.device, sizes: dict[str, int]) -> dict[str, Any]:
    """Causal attention in bfloat16, 12 heads of 64, forward and backward: milliseconds.

    Of one text beside torch's kernels; of sixteen in a row by what `auto` takes and by `flex`.
    """
    shape = (1, 12, sizes["tokens"], 64)
    parts = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(4)]
    query, key, value = (part.requires_grad_() for part in parts[:3])
    score = make_score("scaled_dot", 64, 64, n_heads=12)
    numbers = torch.arange(sizes["tokens"], device=device)[None] // (sizes["tokens"] // 16)
    packed = causal() & documents(numbers)

    def ours(visibility: Visibility, implementation: Implementation) -> Callable[[], None]:
        how = {"score": score, "visibility": visibility, "implementation": implementation}
        return lambda: attend(query, key, value, **how).backward(parts[3])

    def theirs(kernel: SDPBackend) -> Callable[[], None]:
        def once() -> None:
            with sdpa_kernel(kernel):
                scaled_dot_product_attention(query, key, value, is_causal=True).backward(parts[3])

        return once

    found: dict[str, Any] = {"auto": round(timed(ours(causal(), "auto"), device) * 1e3, 3)}
    for kernel in (
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
    ):
        try:
            found[kernel.name] = round(timed(theirs(kernel), device) * 1e3, 3)
        except RuntimeError as error:
            found[kernel.name] = f"not here: {str(error).splitlines()[0]}"
    times = [each for name, each in found.items() if name != "auto" and isinstance(each, float)]
    found["auto_to_best"] = round(found["auto"] / min(times), 3) if times else None
    for name in ("auto", "flex"):
        try:
            found[f"{name}, 16 texts"] = round(timed(ours(packed, name), device) * 1e3, 3)
        except (RuntimeError, ValueError) as error:
            found[f"{name}, 16 texts"] = f"not here: {str(error).splitlines()[0]}"
    return found


def decode(path: Path, device: torch.device, sizes: dict[str, int]) -> dict[str, Any]:
    """Greedy tokens a second of one text and of many."""
    model = headway.load(path, device=str(device))
    assert isinstance(model, LanguageModel)
    rows = model.tokenizer.prompts([f"{number} is a number that" for number in range(100)])
    sampling, found = Sampling(temperature=0.0, max_new_tokens=sizes["new"]), {}
    for n in (1, sizes["texts"]):
        made: list[int] = []

        def once(n: int = n, made: list[int] = made) -> None:
            made[:] = [len(each.ids) for each in model.generate_ids(rows[:n], sampling)]

        seconds = timed(once, device, rounds=2)
        found[f"tokens_per_s of {n}"] = round(sum(made) / seconds, 1)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="SmolLM2's GGUF file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device, sizes = pick_device(given.device), SIZES[given.small]
    ability = measure(device)
    found: dict[str, Any] = {"machine": environment(), "products": ability.products}
    found["reading"] = ability.reading
    rate = ability.products["bfloat16"]
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "train": lambda: train(device, sizes, rate),
        "attention": lambda: attention(device, sizes),
        "decode": lambda: decode(given.model, device, sizes),
    }
    for name, part in parts.items():
        if name == "decode" and given.model is None:
            found[name] = {"reason": "no --model was named"}
        else:
            began = time.perf_counter()
            found[name] = part() | {"seconds": round(time.perf_counter() - began, 1)}
        print(name, found[name], flush=True)
        if given.json:  # after each, so that one that is stopped costs no result
            write_atomic(given.json, to_json(found))


if __name__ == "__main__":
    main()
