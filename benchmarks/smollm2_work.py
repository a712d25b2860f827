"""What the contenders of decode-smollm2 do: Headway, transformers and llama.cpp at the same work.

Each imports what it runs alone, so that the memory of a peer is its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a contender imports is in its memory
    from headway.runs.language_model import LanguageModel, Sampling

N_NEW, N_READ, TOGETHER = 64, 512, 16
OURS = {"float32": None, "bfloat16": "bfloat16", "int8": "int8", "int4": "int4"}


@dataclass(frozen=True)
class Given:
    """What all contenders are given: the ids of the prompts, those to read, the ends, threads."""

    prompts: list[list[int]]
    page: list[int]
    end: int | None
    ends: list[int]
    threads: int

    def rows(self, work: str) -> list[list[int]]:
        """The prompts that are gone on with."""
        return self.prompts[: TOGETHER if work == "many" else 1]


def write_given(model: LanguageModel, texts: list[str], place: Path) -> None:
    """Write down what all contenders are given."""
    import torch

    draw = torch.Generator().manual_seed(1)
    page: list[int] = torch.randint(model.model.n_tokens, (N_READ,), generator=draw).tolist()
    roles, threads = model.tokenizer.roles, torch.get_num_threads()
    found = Given(model.tokenizer.prompts(texts), page, roles.end, sorted(set(roles.ends)), threads)
    place.write_text(json.dumps(asdict(found)), encoding="utf-8")


def read_given(place: Path) -> Given:
    """What `write_given` wrote."""
    return Given(**json.loads(place.read_text(encoding="utf-8")))


def opened(place: Path, bits: Any) -> LanguageModel:
    """The file's model, its weights of so many bits."""
    import headway
    from headway.base.runtime import keep_pages
    from headway.runs.language_model import LanguageModel

    keep_pages()
    model = headway.load(place, device="cpu", quantize=bits)
    assert isinstance(model, LanguageModel)
    return model


def greedy() -> Sampling:
    """How tokens are chosen."""
    from headway.runs.language_model import Sampling

    return Sampling(temperature=0.0, max_new_tokens=N_NEW)


def ours(place: Path, given: Given, name: str, work: str) -> Callable[[], float]:
    """Headway at that work: each call gives how many tokens."""
    model, how = opened(place, OURS[name]), greedy()
    if work == "read":
        one = replace(how, max_new_tokens=1)

        def read() -> float:
            model.generate_ids([given.page], one)
            return float(N_READ)

        return read
    rows = given.rows(work)
    return lambda: float(sum(len(each.ids) for each in model.generate_ids(rows, how)))


def theirs(place: Path, given: Given, name: str, work: str) -> Callable[[], float]:
    """transformers at that work."""
    import torch
    from transformers import AutoModelForCausalLM

    dtype = getattr(torch, name.rpartition("-")[2])
    model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype)
    if work == "read":
        ids = torch.tensor([given.page])

        def read() -> float:
            with torch.inference_mode():
                model(ids, use_cache=True, logits_to_keep=1).logits.argmax(dim=-1)
            return float(N_READ)

        return read
    rows = given.rows(work)
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.int64)
    seen = torch.zeros_like(ids)
    for line, row in enumerate(rows):
        ids[line, width - len(row) :] = torch.tensor(row)
        seen[line, width - len(row) :] = 1
    pad = 0

    def go_on() -> float:
        with torch.inference_mode():
            found = model.generate(
                ids,
                attention_mask=seen,
                do_sample=False,
                max_new_tokens=N_NEW,
                pad_token_id=pad,
                eos_token_id=given.end,
            )
        return float((found[:, width:] != pad).sum())

    return go_on


def llama(place: Path, given: Given, work: str) -> Callable[[], float]:
    """llama.cpp at that work, with as many threads as torch has."""
    from llama_cpp import Llama

    n = given.threads
    model = Llama(str(place), n_ctx=1024, n_threads=n, n_threads_batch=n, verbose=False)
    (row,), ends = given.rows("one"), set(given.ends)

    def read() -> float:
        model.reset()
        model.eval(given.page)
        return float(N_READ)

    def go_on() -> float:
        model.reset()
        found = 0
        for token in model.generate(row, temp=0.0):
            found += 1
            if token in ends or found == N_NEW:
                break
        return float(found)

    return read if work == "read" else go_on


def fastest(place: Path) -> dict[str, float]:
    """Tokens a second of one text if reading the weights once for each were all that takes time."""
    from decode_floor import bytes_read, products, reading_rate

    reading = reading_rate()
    return {
        name: reading / bytes_read(products(opened(place, bits))) for name, bits in OURS.items()
    }


def divergence(place: Path, given: Given) -> dict[str, Any]:
    """How far the rounded models are from the one in float32, on what that one writes."""
    import torch

    plain, rows = opened(place, None), given.prompts
    made = plain.generate_ids(rows, greedy())
    written = [[*row, *each.ids] for row, each in zip(rows, made, strict=True)]
    told: dict[str, Any] = {}
    n = sum(map(len, written))
    for name, bits in OURS.items():
        if bits is None:
            continue
        rounded, sums, same = opened(place, bits), 0.0, 0
        for ids in written:
            row = torch.tensor([ids])
            with torch.inference_mode():
                p, q = (each.model(row)[0].float().log_softmax(dim=-1) for each in (plain, rounded))
            sums += float((p.exp() * (p - q)).sum(dim=-1).double().sum())
            same += int((p.argmax(dim=-1) == q.argmax(dim=-1)).sum())
        told[name] = {
            "kl": round(sums / n, 6),
            "tokens": n,
            "same_first_choice": round(same / n, 4),
            "changed": round(rounded.rounding.error, 5) if rounded.rounding else 0.0,
        }
    return told
