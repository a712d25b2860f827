"""One thread for all tests; for tests/runs and tests/cli a toy language, tiny runs that learn it
(trained once, on first use), and the command line in this process.
"""

from __future__ import annotations

import io
import random
import shutil
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

WORDS = {
    "un": "one",
    "deux": "two",
    "trois": "three",
    "quatre": "four",
    "cinq": "five",
    "rouge": "red",
    "vert": "green",
    "bleu": "blue",
    "grand": "big",
    "petit": "small",
    "chat": "cat",
    "chien": "dog",
    "mange": "eats",
    "boit": "drinks",
    "dort": "sleeps",
}
PARTS = {"train": 400, "valid": 20, "test": 40}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {
        "kind": "transformer",
        "n_encoder_layers": 1,
        "n_decoder_layers": 2,
        "d_model": 32,
        "d_feed_forward": 64,
        "n_heads": 2,
        "max_length": 64,
    },
    "attention": {
        "kind": "recurrent",
        "score": "additive",
        "score_rank": 16,
        "d_embedding": 24,
        "d_hidden": 32,
        "max_length": 64,
    },
    "plain": {"kind": "recurrent", "d_embedding": 24, "d_hidden": 32, "max_length": 64},
}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "bpe", "size": 370},
    "attention": {"kind": "word", "size": 19, "joint": False},
    "plain": {"kind": "word", "size": 34},
}


class Said(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: bytes
    err: str

    @property
    def error(self) -> str:
        """The one message of a command that was given something wrong."""
        last = self.err.rstrip("\n").split("\n")[-1]
        assert self.code == 2, self
        assert last.startswith("error: "), self
        assert self.err.count("error: ") == 1, self
        assert "Traceback" not in self.err, self
        return last


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    """Tests have tiny tensors: threads only wait for one another, for minutes on a busy machine.

    Sums then also agree bit for bit with those of a process under OMP_NUM_THREADS=1. Each file
    begins with one, whatever a library did to the number before.
    """
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train, valid and test in two files each: word for word from toy French to toy English."""
    folder = tmp_path_factory.mktemp("toy")
    for seed, (part, n) in enumerate(PARTS.items()):
        draw = random.Random(seed)
        rows = [draw.choices(list(WORDS), k=draw.randint(1, 9)) for _ in range(n)]
        for language, word in (("fr", str), ("en", WORDS.__getitem__)):
            lines = (" ".join(map(word, row)) + "\n" for row in rows)
            (folder / f"{part}.{language}").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def toy_recipe(toy: Path) -> Callable[..., dict[str, Any]]:
    """The recipe of one of the three tiny runs, as a table; keywords change its `train`."""

    def table(kind: str, **train: Any) -> dict[str, Any]:
        data = {
            part: {"source": str(toy / f"{part}.fr"), "target": str(toy / f"{part}.en")}
            for part in PARTS
        }
        settings = {
            "steps": 150,
            "batch_tokens": 256,
            "learning_rate": 1e-2,
            "warmup": 20,
            "schedule": "constant",
            "dtype": "float32",
            "log_every": 20,
            "evaluate_every": 75,
            "save_every": 50,
        }
        return {
            "data": {"source_language": "fr", "target_language": "en", **data},
            "tokenizer": dict(TOKENIZERS[kind]),
            "model": dict(MODELS[kind]),
            "train": settings | train,
            "evaluate": {"lines": 20},
        }

    return table


@pytest.fixture(scope="session")
def peak_of() -> Callable[[], Any]:
    """What counts the bytes of tensors while it is on: `most` is the most at a time."""
    from headway.training.peak import Peak

    return Peak


@pytest.fixture
def goes_on_exactly(tmp_path: Path) -> Callable[..., None]:
    """Trap B4: a run that lost its last checkpoint, in the middle of an epoch, and is resumed ends
    as the one that was never stopped, in its weights, its optimiser and what it is judged by.
    """

    def check(recipe: dict[str, Any], **train: int) -> None:
        import torch

        import headway
        from headway.checkpoint.run import RunFolder
        from headway.checkpoint.steps import newest_checkpoint

        whole, broken = tmp_path / "whole", tmp_path / "broken"
        headway.train(recipe, out=whole, train=train)
        shutil.copytree(whole, broken)
        shutil.rmtree(broken / "checkpoints" / f"step-{train['steps']}")
        found, _ = newest_checkpoint(broken / "checkpoints")
        assert found is not None
        saved = train["steps"] // train["save_every"] * train["save_every"]
        assert (found.step, found.state()["batch"] > 0) == (saved, True)
        headway.train(None, out=broken, resume=True)
        ends = [newest_checkpoint(path / "checkpoints")[0] for path in (whole, broken)]
        one, other = ({**end.weights(), **end.optimizer()} for end in ends if end is not None)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
        logs = [RunFolder(path).metrics.read() for path in (whole, broken)]
        judged = [
            [{**each, "seconds": 0} for each in log if each["kind"] in ("valid", "test")]
            for log in logs
        ]
        assert judged[0]
        assert judged[0] == judged[1]

    return check


@pytest.fixture(scope="session")
def trained(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The run "transformer", "attention" or "plain". It is shared: copy it to change it."""
    import headway

    runs = tmp_path_factory.mktemp("runs")

    def run(kind: str) -> Path:
        if not (runs / kind).exists():
            headway.train(toy_recipe(kind), out=runs / kind)
        return runs / kind

    return run


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Run `headway WORDS` in this process, from its command line to its exit code."""
    from headway.cli.main import main

    def run(*words: object, stdin: bytes = b"", encoding: str = "utf-8") -> Said:
        streams = [io.TextIOWrapper(io.BytesIO(data), encoding) for data in (stdin, b"", b"")]
        code: object = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["headway", *map(str, words)])
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            # what main changes comes back
            patch.setattr(warnings, "showwarning", warnings.showwarning)
            patch.setattr(threading, "excepthook", threading.__excepthook__)
            try:
                main()
            except SystemExit as left:
                code = left.code or 0
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue() for stream in streams[1:])  # type: ignore[attr-defined]
        assert isinstance(code, int)
        return Said(code, out, err.decode(encoding))

    return run
