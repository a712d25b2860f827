"""headway evaluate"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.base.errors import UserError
from headway.base.progress import say
from headway.cli.options import Beam, Device, Glue, JsonFile, Run, refuse_inputs, write_json


def evaluate(  # long: its options
    run: Run,
    data: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="SOURCE TARGET", help="Two parallel files; the recipe's test part if not set."
        ),
    ] = None,
    beam: Beam = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A task of GLUE for a classifier, such as glue/mrpc."),
    ] = None,
    glue: Glue = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,…",
            help="Tasks of lm-evaluation-harness, or .yaml files of such, for a language model.",
        ),
    ] = None,
    shots: Annotated[
        int | None,
        typer.Option(min=0, help="With --tasks: examples before a question. Each task's own."),
    ] = None,
    lines: Annotated[
        int | None, typer.Option(min=1, help="With --tasks: the first questions alone.")
    ] = None,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    r"""Judge a run on its test part, or on its validation part if it has none.

    A translator by BLEU, chrF, exact match, token accuracy and perplexity, also by source length; a
    language model by perplexity and bits per byte; a classifier by its scores, or with --task by
    the official metrics of a task of GLUE.

    With --tasks a language model (a Hugging Face folder or a .gguf file as well) is put to the
    standard benchmarks: needs pip install 'headway\[eval]'.

    Example: headway evaluate runs/fr-en --data test.fr test.en --json scores.json

    Example: headway evaluate model.gguf --tasks hellaswag,arc_easy --lines 100
    """
    _refuse_strays(
        {"--task": {"--glue": glue}, "--tasks": {"--shots": shots, "--lines": lines}},
        {"--task": task, "--tasks": tasks},
        {"--data": data, "--beam": beam},
    )
    refuse_inputs(json, run, *map(Path, data or ()))
    if task is not None:
        _evaluate_task(run, task, glue, json, device)
    elif tasks is not None:
        _evaluate_harness(run, tasks, shots, lines, json, device)
    elif data or beam or not _evaluate_held_out(run, json, device):
        _evaluate_pairs(run, data, beam, json, device)


def _refuse_strays(
    belongs: Mapping[str, Mapping[str, Any]], asked: Mapping[str, Any], pairs: Mapping[str, Any]
) -> None:
    """Raise UserError for options that would say nothing: each belongs to what is asked."""
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} are two questions", todo="ask one at a time")
    for owner, options in belongs.items():
        for name, value in options.items():
            if value is not None and owner not in given:
                raise UserError(f"{name} goes with {owner}", where=name, todo=f"add {owner} NAME")
    for name, value in pairs.items():
        if value is not None and given:
            raise UserError(f"{name} is for a translator", where=given[0], todo="leave it out")


def _evaluate_held_out(run: Path, json: Path | None, device: str) -> bool:
    """Judge a run that is no translator's; whether it is one."""
    from headway.runs.judging import judge_run

    found = judge_run(run, device=device)
    if found is None:
        return False
    print(f"{found.part}: {found.said}")
    write_json(json, {"model": str(run), **found.to_table()})
    return True


def _evaluate_harness(
    run: Path,
    tasks: str,
    shots: int | None,
    lines: int | None,
    json: Path | None,
    device: str,
) -> None:
    from headway.runs.harness import evaluate_tasks, results_table
    from headway.runs.open_model import open_language_model

    opened = open_language_model(run, device=device)
    results = evaluate_tasks(opened, tasks.split(","), shots=shots, lines=lines)
    print(results_table(results))
    write_json(json, results)


def _evaluate_pairs(
    run: Path, data: tuple[str, str] | None, beam: int | None, json: Path | None, device: str
) -> None:
    from headway.data.pairs import load_part, read_pairs
    from headway.evaluate.translation import range_label
    from headway.runs.evaluate import evaluate_pairs
    from headway.runs.open_model import open_judged, open_translator
    from headway.settings.kinds import TranslationRecipe

    translator = (open_translator if data or beam else open_judged)(run, device=device)
    recipe, pairs = translator.recipe, None
    if data:
        pairs = read_pairs(*data)
    elif isinstance(recipe, TranslationRecipe):
        pairs = load_part(recipe.data, "test") or load_part(recipe.data, "valid")
    if pairs is None:
        raise UserError(
            "the recipe has no test part and no validation part", todo="name two files with --data"
        )
    for notice in pairs.notices:
        say(notice)
    found = evaluate_pairs(translator, pairs, beam=beam, progress=True)
    scores, likelihood = found.scores, found.likelihood
    print(f"{scores.n} pairs from {pairs.origin}")
    print(f"BLEU            {scores.bleu:6.2f}   {scores.signature}")
    print(f"chrF            {scores.chrf:6.2f}   {scores.chrf_signature}")
    print(f"exact match     {scores.exact_match:6.2f} %")
    print(f"token accuracy  {likelihood.token_accuracy:6.2f} %")
    print(f"perplexity      {likelihood.perplexity:6.2f}")
    for part in scores.by_length:
        words = range_label(part.low, part.high)
        print(
            f"  {words:>6} words  {part.n:6} pairs  exact match {part.exact_match:5.1f} %  "
            f"chrF {part.chrf:5.1f}"
        )
    # last: a file that cannot be written costs no figures
    about = {"model": str(run), "pairs": pairs.origin, "data": pairs.digest()}
    width = beam or recipe.evaluate.beam
    write_json(
        json, {**about, "beam": width, **found.to_table(), "translations": found.translations}
    )


def _evaluate_task(run: Path, task: str, glue: str | None, json: Path | None, device: str) -> None:
    from headway.runs.glue import evaluate_task
    from headway.runs.open_model import open_classifier

    parts = evaluate_task(open_classifier(run, device=device), task, glue)
    for part in parts:
        for notice in part.notices:
            say(notice)
        print(f"{part.n} rows from {part.file}")
        for metric, value in part.scores.items():
            print(f"{metric:14}  {value:6.2f}")
    write_json(
        json, {"task": task, "model": str(run), "parts": [each.to_table() for each in parts]}
    )


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(evaluate)
