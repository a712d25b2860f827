"""headway generate"""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from headway.base.errors import UserError
from headway.cli.options import Device, JsonFile, Model, write_json


def generate(  # long: its options
    model: Model,
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What to continue; standard input if not set."),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="The prompt is a user's message, to be answered.")
    ] = False,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --chat: what the model is told first.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The most tokens to add.")] = 128,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The likeliest token each time, nothing drawn.")
    ] = False,
    temperature: Annotated[
        float, typer.Option(help="Below 1 sharper, above 1 flatter than the model says.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(help="Draw from the k likeliest; 0 from all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Draw from the likeliest that together have this probability.")
    ] = 0.95,
    min_p: Annotated[
        float, typer.Option(help="Draw from those that have this share of the likeliest's.")
    ] = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1: less of what was said before.")
    ] = 1.0,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End before this text; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other tokens.")] = 1,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Continue a text with a language model: a run, a Hugging Face folder or a .gguf file.

    The text appears as it comes. The file of --json has `text` and `ids` of the new part, and the
    `reason` why it ended: "end", "stop" or "limit".

    Example: headway generate model.gguf --chat --prompt "Name three rivers."
    """
    from headway.runs.language_model import Sampling
    from headway.runs.open_model import open_language_model

    if system is not None and not chat:
        raise UserError("--system is for a conversation", where="--system", todo="add --chat")
    if any(not text for text in stop or ()):
        raise UserError("an empty text would stop at once", where="--stop")
    given = sys.stdin.read().removesuffix("\n") if prompt is None else prompt
    opened = open_language_model(model, device=device)
    sampling = Sampling(
        max_new_tokens=max_new_tokens,
        temperature=0.0 if greedy else temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        seed=seed,
    )

    def show(_row: int, text: str) -> None:
        print(text, end="", flush=True)

    if chat:
        first = [{"role": "system", "content": system}] if system is not None else []
        messages = [*first, {"role": "user", "content": given}]
        found = opened.answer(messages, sampling, show)
    else:
        print(given, end="", flush=True)
        (found,) = opened.generate([given], sampling, show)
    print()
    write_json(json, dataclasses.asdict(found))


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(generate)
