"""Requests that come over time: answered together by the running batch, against one by one.

    .venv-bench/bin/python benchmarks/serving.py --model SmolLM2-135M-Instruct.Q4_1.gguf \\
        --json benchmarks/results/serving.json

64 requests of mixed lengths arrive within 20 seconds; each continues a piece of Python's own
documentation, by the likeliest tokens, in float32. The speed is that of all new tokens from the
first arrival to the last end. `lookup` is one text at a time with and without prompt look-up, on
prompts that repeat themselves.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from statistics import median
from typing import Any

import torch

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment
from headway.runs.generated import Generated, Sampling
from headway.runs.language_model import LanguageModel
from headway.runs.open_model import open_language_model

WITHIN, SEED = 20.0, 1  # seconds
PROMPT, NEW = (20, 1200), (16, 192)  # letters, tokens: from, to
REPEATED = 128  # tokens


@dataclass(frozen=True)
class Asked:
    """One request: when it comes, what it begins with, how long the answer may be."""

    arrives: float
    prompt: str
    new_tokens: int

    @property
    def sampling(self) -> Sampling:
        """The likeliest tokens."""
        return Sampling(temperature=0.0, max_new_tokens=self.new_tokens)


@dataclass
class Seen:
    """What a request got, and when, in seconds after its arrival."""

    result: Generated | None = None
    first: float | None = None
    last: float = 0.0


def work(n: int, within: float) -> list[Asked]:
    """Requests in order of arrival; short ones are more frequent than long ones."""
    draw, pages = random.Random(SEED), sorted(topics.values())
    text = "".join(page for page in pages if len(page) > PROMPT[1])
    found = []
    for arrives in sorted(draw.uniform(0, within) for _ in range(n)):
        length = int(PROMPT[0] * (PROMPT[1] / PROMPT[0]) ** draw.random())
        begin = draw.randrange(len(text) - length)
        found.append(Asked(arrives, text[begin : begin + length], draw.randint(*NEW)))
    return found


def together(model: LanguageModel, asked: Sequence[Asked], memory: int) -> tuple[list[Seen], float]:
    """The running batch; seconds from the first arrival to the last end."""
    batcher, coming = model.batcher(memory), deque(enumerate(asked))
    seen, answers = [Seen() for _ in asked], {}
    began = time.perf_counter() - asked[0].arrives
    while coming or answers:
        while coming and coming[0][1].arrives <= time.perf_counter() - began:
            number, each = coming.popleft()
            note = notes(seen[number], began + each.arrives)
            answers[number] = batcher.submit(each.prompt, each.sampling, note)
        if not batcher.step() and coming:
            time.sleep(max(0.0, coming[0][1].arrives - (time.perf_counter() - began)))
        for number in [number for number, answer in answers.items() if answer.done]:
            seen[number].result = answers.pop(number).result()
            seen[number].last = time.perf_counter() - began - asked[number].arrives
    return seen, time.perf_counter() - began - asked[0].arrives


def one_by_one(model: LanguageModel, asked: Sequence[Asked]) -> tuple[list[Seen], float]:
    """Each when it is its turn; seconds from the first arrival to the last end."""
    began = time.perf_counter() - asked[0].arrives
    seen = [Seen() for _ in asked]
    for each, one in zip(asked, seen, strict=True):
        time.sleep(max(0.0, each.arrives - (time.perf_counter() - began)))
        note = notes(one, began + each.arrives)
        (one.result,) = model.generate([each.prompt], each.sampling, note)
        one.last = time.perf_counter() - began - each.arrives
    return seen, time.perf_counter() - began - asked[0].arrives


def notes(seen: Seen, arrived: float) -> Callable[..., None]:
    """What is told of each piece of text: it notes when the first one came."""

    def note(*_: object) -> None:
        if seen.first is None:
            seen.first = time.perf_counter() - arrived

    return note


def told(seen: Sequence[Seen], seconds: float) -> dict[str, Any]:
    """The speed of all, and what one request noticed of it."""
    tokens = sum(len(each.result.ids) for each in seen if each.result)
    ends = sorted(each.last for each in seen)
    return {
        "new_tokens": tokens,
        "seconds": round(seconds, 2),
        "tokens_per_second": round(tokens / seconds, 1),
        "seconds_to_first_text": round(median(each.first or each.last for each in seen), 2),
        "seconds_to_end": {"median": round(median(ends), 2), "most": round(ends[-1], 2)},
    }


@torch.inference_mode()
def margin(model: LanguageModel, prompt: str, one: list[int], other: list[int]) -> dict[str, Any]:
    """Where two answers part, and how much likelier the model finds the first of the two."""
    place = next(
        (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    ids = [*model.tokenizer.prompts([prompt])[0], *one[:place]]
    log_probs = model.model(torch.tensor([ids]))[0, -1].log_softmax(-1)
    best = log_probs.topk(2).values
    return {"place": place, "nats": float(best[0] - best[1])}


def lookup(model: LanguageModel) -> dict[str, Any]:
    """Texts that begin to repeat themselves, with and without prompt look-up."""
    prompts = [topics[name][:600] + "\n\n" + topics[name][:40] for name in ("if", "while", "with")]
    sampling, found = Sampling(temperature=0.0, max_new_tokens=REPEATED), dict[str, Any]()
    results: list[list[Generated]] = []
    for name, draft in (("plain", None), ("lookup", "lookup")):
        began = time.perf_counter()
        results.append([model.generate([each], sampling, draft=draft)[0] for each in prompts])  # type: ignore[arg-type]
        seconds = time.perf_counter() - began
        found[name] = round(sum(len(each.ids) for each in results[-1]) / seconds, 1)
    same = sum(one.ids == other.ids for one, other in zip(*results, strict=True))
    counts = {
        key: sum(getattr(each, key) for each in results[1]) for key in ("guessed", "accepted")
    }
    return {"tokens_per_second": found, "same": same, "of": len(prompts), **counts}


def measure(model: LanguageModel, n: int, within: float, memory: int) -> dict[str, Any]:
    """Both ways, and whether they say the same."""
    asked = work(n, within)
    model.generate(["warm up"], Sampling(temperature=0.0, max_new_tokens=8))
    batch, alone = together(model, asked, memory), one_by_one(model, asked)
    differ = []
    for each, one, other in zip(asked, alone[0], batch[0], strict=True):
        assert one.result is not None
        assert other.result is not None
        if one.result.ids != other.result.ids:
            differ.append(margin(model, each.prompt, one.result.ids, other.result.ids))
    found = {"one_by_one": told(*alone), "together": told(*batch)}
    speeds = [found[name]["tokens_per_second"] for name in ("together", "one_by_one")]
    return {
        "requests": n,
        "arriving_within_seconds": within,
        "memory_tokens": memory,
        "prompt_tokens": sum(map(len, model.tokenizer.prompts([each.prompt for each in asked]))),
        **found,
        "ratio": round(speeds[0] / speeds[1], 2),
        "same": n - len(differ),
        "of": n,
        "differences": differ,
        "lookup": lookup(model),
    }


def main() -> None:
    """Measure, write, say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--within", type=float, default=WITHIN, help="seconds")
    parser.add_argument("--memory", type=int, default=16_384, help="tokens")
    given = parser.parse_args()
    model = open_language_model(given.model, device="cpu")
    found = measure(model, given.requests, given.within, given.memory)
    record = {
        "machine": environment(),
        "threads": torch.get_num_threads(),
        "model": given.model.name,
    }
    write_atomic(given.json, to_json(record | found))
    print(
        to_json({key: found[key] for key in ("one_by_one", "together", "ratio", "same", "lookup")})
    )


if __name__ == "__main__":
    main()
