"""headway embed"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import Device, JsonFile, Model, write_json


def embed(
    model: Model,
    query: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Rank the lines by how close they are to this text."),
    ] = None,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Give each line of standard input a vector: with --json into a file, with --query a rank.

    The file has `texts` and `embeddings`, one list of numbers a text. With a query each line is
    printed with its cosine similarity, the closest first.

    Example: headway embed minilm/ --query "how do plants eat" < sentences.txt
    """
    if query is None and json is None:
        raise UserError("nothing to do with the vectors", todo="name --json FILE, or --query TEXT")
    from headway.runs.open_model import open_embedder

    texts = sys.stdin.read().removesuffix("\n").split("\n")
    opened = open_embedder(model, device=device)
    vectors = opened.embed(texts)
    if query is not None:
        close = opened.similarities(query, vectors)
        for place in sorted(range(len(texts)), key=lambda place: -close[place]):
            print(f"{close[place]:.4f}\t{texts[place]}")
    write_json(json, {"texts": texts, "embeddings": vectors.tolist()})


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(embed)
