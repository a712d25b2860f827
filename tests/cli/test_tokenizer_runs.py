"""headway tokenizer on the runs of models that are no translators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def of_documents(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of a toy "decoder" or "encoder" on a few words."""
    place = tmp_path_factory.mktemp("documents")
    (place / "text").write_text("un chat dort\nun chien dort\n" * 40, encoding="utf-8")
    size = {"n_layers": 1, "d_model": 16, "d_feed_forward": 16, "n_heads": 2, "max_length": 16}
    source = {"files": str(place / "text"), "document": "line"}

    def run(kind: str) -> Path:
        tokenizer = {"decoder": "bpe", "encoder": "wordpiece"}[kind]
        recipe = {
            "data": {"kind": "documents", "duplicates": "keep", "train": {"mine": source}},
            "tokenizer": {"kind": tokenizer, "size": 290},
            "model": {"kind": kind, **size},
            "train": {"steps": 1, "batch_tokens": 64, "warmup": 1, "dtype": "float32"},
        }
        if kind == "encoder":
            recipe["masking"] = {"next_sentence": False}
        headway.train(recipe, out=place / kind, device="cpu")
        return place / kind

    return run


@pytest.mark.parametrize(
    ("kind", "pieces", "special"),
    [
        ("decoder", "un ▁chat ▁dort", "(start)"),
        ("encoder", "un chat dort", ", <mask> "),
    ],
)
def test_a_run_of_another_kind_has_its_tokeniser(
    kind: str, pieces: str, special: str, of_documents: Callable[[str], Path], cli: Cli
) -> None:
    """Its ids are those of the text, without the frame that its model wants."""
    run, data = of_documents(kind), b"un chat dort\n\nchat\n"
    said = cli("tokenizer", "encode", run, "--pieces", stdin=data)
    assert said.code == 0, said.err
    assert said.out.decode("utf-8").splitlines()[:2] == [pieces, ""]
    ids = cli("tokenizer", "encode", run, stdin=data).out
    assert cli("tokenizer", "decode", run, stdin=ids).out == data
    text = run.parent / "text"
    said = cli("tokenizer", "inspect", run, text)
    assert said.code == 0, said.err
    assert pieces.replace(" ", "|") in said.out.decode("utf-8").splitlines()
    assert special in said.out.decode("utf-8")
    error = cli("tokenizer", "encode", run, "--side", "source").error
    assert "--side is for the run of a translator" in error
