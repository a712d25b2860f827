"""headway embed"""

from __future__ import annotations

from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import (
    STDIN,
    Device,
    JsonFile,
    Model,
    refuse_inputs,
    spread,
    stdin_lines,
    write_json,
)


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

    The file has `texts` and `embeddings`, one list of numbers a text, null for an empty line. With
    a query each line that has text is printed with its cosine similarity, the closest first.

    Example: headway embed minilm/ --query "how do plants eat" < sentences.txt
    """
    if query is None and json is None:
        raise UserError("nothing to do with the vectors", todo="name --json FILE, or --query TEXT")
    refuse_inputs(json, model, STDIN)
    from headway.runs.open_model import open_embedder

    lines = stdin_lines()
    texts = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
    opened = open_embedder(model, device=device)
    vectors = opened.embed(list(texts.values()), numbers=list(texts))
    if query is not None and texts:
        close = zip(opened.similarities(query, vectors), texts.values(), strict=True)
        for similarity, text in sorted(close, key=lambda each: -each[0]):
            print(f"{similarity:.4f}\t{text}")
    write_json(json, {"texts": lines, "embeddings": spread(lines, vectors.tolist())})


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(embed)
