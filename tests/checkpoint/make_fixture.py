"""Write a tiny run in the format of this version, to be committed and read by every later one.

python tests/checkpoint/make_fixture.py     # once a format; refuses to overwrite
"""

from __future__ import annotations

from pathlib import Path

import torch

from headway.checkpoint.run import FORMAT, RunFolder
from headway.checkpoint.steps import save_checkpoint

FIXTURES = Path(__file__).with_name("fixtures")


def make(path: Path) -> None:
    """A run with all its files; the numbers are what test_formats.py expects."""
    run = RunFolder(path)
    tokenizers = {"tokenizer.source.json": '{"é": 0}\n', "tokenizer.target.json": '{"e": 0}\n'}
    run.create('name = "fixture"\n', {"kind": "seq2seq"}, tokenizers, {"headway": "0.1.0"})
    embedding = torch.arange(6.0).view(3, 2)
    weights = {
        "embedding": embedding,
        "head": embedding,
        "half": torch.tensor([0.5, -1.5]).bfloat16(),
    }
    run.save_weights(weights)
    run.metrics.append({"kind": "train", "step": 4, "nll": 0.1})
    moments = {"embedding.exp_avg": embedding / 8, "step": torch.tensor(4.0)}
    state = {"step": 4, "epoch": 1, "best": 0.1, "seen": [3, 1, 2]}
    for step in (2, 4):
        save_checkpoint(
            run.checkpoints, step, weights=weights, optimizer=moments, state=state, keep=1
        )


if __name__ == "__main__":
    make(FIXTURES / f"format-{FORMAT}")
