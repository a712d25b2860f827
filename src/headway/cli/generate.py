"""headway generate"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from headway.base.errors import UserError
from headway.base.progress import say
from headway.cli.options import (
    STDIN,
    Device,
    JsonFile,
    Model,
    refuse_inputs,
    stdin_lines,
    write_json,
)
from headway.cli.volume import Unknown


def generate(  # long: its options
    model: Model,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="What to continue, repeatable; else standard input, without its last line end.",
        ),
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
        float | None,
        typer.Option(help="Below 1 sharper, above 1 flatter than the model says; 0.8."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Draw from the k likeliest; 0 from all.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Draw from the likeliest that together have this probability; 0.95."),
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Draw from those that have this share of the likeliest's.")
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1: less of what was said before.")
    ] = 1.0,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End before this text; repeatable.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Another seed draws other tokens; 1.")
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Round the weights to bfloat16, int8 or int4: faster on a CPU."
        ),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A smaller model of the same vocabulary, to guess ahead; "
            "`lookup` guesses from what the text says already.",
        ),
    ] = None,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Continue a text with a language model: a run, a Hugging Face folder or a .gguf file.

    The text appears as it comes; of several prompts each when all are done. The file of --json has
    `text` and `ids` of the new part, its `log_prob`, and the `reason` why it ended: "end", "stop"
    or "limit"; of several prompts it has a list of that. With --draft the text is the same, or as
    likely where tokens are drawn, in fewer steps; how many tokens were `guessed`, and how many
    `accepted`, is in the file too.

    Example: headway generate model.gguf --chat --prompt "Name three rivers."
    """
    smaller = None if draft is None or draft == "lookup" else Path(draft)
    refuse_inputs(json, model, smaller, STDIN)
    from headway.base.runtime import keep_pages
    from headway.runs.generated import Sampling
    from headway.runs.language_model import Drafting
    from headway.runs.open_model import open_language_model

    if system is not None and not chat:
        raise UserError("--system is for a conversation", where="--system", todo="add --chat")
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    wanted: dict[str, Any] = {
        name: value for name, value in {**drawn, "seed": seed}.items() if value is not None
    }
    if greedy and wanted:
        option = f"--{next(iter(wanted)).replace('_', '-')}"
        raise UserError(f"{option} is for random draws", where="--greedy", todo="leave one out")
    given = prompt or ["\n".join(stdin_lines())]
    if chat and not all(each.strip() for each in given):
        raise UserError("an empty message asks nothing", where="--chat", todo="write one")
    sampling = Sampling(
        max_new_tokens=max_new_tokens,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        **({"temperature": 0.0} if greedy else wanted),
    )
    keep_pages()
    opened = open_language_model(model, device=device, quantize=cast(Any, quantize))
    if opened.rounding is not None:
        say(f"{quantize}: {opened.rounding}")
    guesses: Drafting | None = "lookup" if draft == "lookup" else None
    if smaller is not None:
        guesses = open_language_model(smaller, device=device, quantize=cast(Any, quantize))
    first = [{"role": "system", "content": system}] if system is not None else []
    talks = [[*first, {"role": "user", "content": each}] for each in given]
    begins = ["" if chat else each for each in given]

    def show(_row: int, text: str) -> None:
        print(begins[0] + text, end="", flush=True)
        begins[0] = ""  # the prompt comes with the first text: one that is refused is not repeated

    on_text = show if len(given) == 1 else None
    found = (
        opened.answers(talks, sampling, on_text, draft=guesses)
        if chat
        else opened.generate(given, sampling, on_text, draft=guesses)
    )
    if len(given) == 1:
        print(begins[0])
    else:
        print("\n\n".join(begin + each.text for begin, each in zip(begins, found, strict=True)))
    unknown = Unknown("prompts")
    for number, row in enumerate(opened.tokenizer.cut(given), start=1):
        unknown.note(number, *row)
    unknown.say()
    told = [dataclasses.asdict(each) for each in found]
    write_json(json, told[0] if len(told) == 1 else told)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(generate)
