"""headway plan"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.base.errors import UserError
from headway.cli.options import JsonFile, refuse_inputs, write_json

if TYPE_CHECKING:
    from headway.scaling.hardware import Hardware
    from headway.scaling.laws import ParametricLaw
    from headway.scaling.plan import Plan
    from headway.scaling.question import Question

_BUDGET, _MODEL, _GROUND = "What there is", "What is wanted", "What it rests on"
_LAW = "besiroglu"


def plan(  # long: its options
    money: Annotated[
        str | None, typer.Option(metavar="USD", help="10k, 1M.", rich_help_panel=_BUDGET)
    ] = None,
    hours: Annotated[
        str | None, typer.Option(metavar="H", help="36, 2d, 90min.", rich_help_panel=_BUDGET)
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:COUNT]",
            help="As in the table of machines; h100-sxm if not set.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    unique_tokens: Annotated[
        str | None,
        typer.Option(metavar="D", help="Different tokens of text.", rich_help_panel=_BUDGET),
    ] = None,
    params: Annotated[
        str | None,
        typer.Option(metavar="N", help="All parameters: 7B.", rich_help_panel=_MODEL),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="D", help="Trained on: 1.5T.", rich_help_panel=_MODEL)
    ] = None,
    loss: Annotated[
        str | None, typer.Option(metavar="L", help="Nats a token.", rich_help_panel=_MODEL)
    ] = None,
    serve_tokens: Annotated[
        str | None,
        typer.Option(metavar="T", help="Read and written later.", rich_help_panel=_MODEL),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=1, max=2**20, help="Tokens of a text; by size.", rich_help_panel=_MODEL),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(min=2, max=2**24, help="Ids; by size.", rich_help_panel=_MODEL),
    ] = None,
    utilisation: Annotated[
        float | None,
        typer.Option(help="Share of the peak, 0.4; the table's.", rich_help_panel=_GROUND),
    ] = None,
    law: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="A published law, or what headway scaling fit wrote.",
            rich_help_panel=_GROUND,
        ),
    ] = _LAW,
    hardware: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Machines of your own.", rich_help_panel=_GROUND),
    ] = None,
    calibrate: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="Learn a machine's speed from finished runs, or a folder of them; --machine, "
            "or this one as 'here'. Kept in --hardware, or in your cache.",
            rich_help_panel=_GROUND,
        ),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="What 100 to 10 million dollars buy.")
    ] = False,
    json: JsonFile = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as a page.")] = None,
    recipe: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the recipe of --choice.")
    ] = None,
    choice: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose recipe; the first one's.")
    ] = None,
) -> None:
    """Plan a training: from any sufficient part of money, time, size, text and loss, the rest.

    Numbers may end in k, M, B or T. The choices stand side by side: the least loss for the
    compute, a smaller model that is cheap to serve, and what is best where there is little text.

    Example: headway plan --money 10k --serve-tokens 1T

    Example: headway plan --params 1B --machine a100-80gb:8 --recipe plan.toml

    Example: headway plan --table --machine rtx-4090

    Example: headway plan --calibrate runs/small --calibrate runs/large
    """
    from headway.scaling.hardware import load_hardware
    from headway.scaling.question import MACHINE, Question, machine_of
    from headway.scaling.units import hours as as_hours
    from headway.scaling.units import quantity

    def number(text: str | None, name: str) -> float | None:
        return None if text is None else quantity(text, where=name)

    for out in (json, html, recipe):
        refuse_inputs(out, hardware, Path(law))
    budget: dict[str, object] = {
        "--money": money,
        "--hours": hours,
        "--params": params,
        "--tokens": tokens,
        "--loss": loss,
        "--serve-tokens": serve_tokens,
        "--unique-tokens": unique_tokens,
    }
    recipes: dict[str, object] = {"--recipe": recipe, "--choice": choice}
    rests: dict[str, object] = {
        "--utilisation": utilisation,
        "--length": length,
        "--vocabulary": vocabulary,
    }
    if calibrate:
        others: dict[str, object] = {"--table": table or None, "--html": html}
        others["--law"] = law if law != _LAW else None
        _refuse_strays("--calibrate plans nothing", budget | recipes | rests | others)
        _calibrate(calibrate, machine, hardware, json)
        return
    name, count = machine_of(machine or MACHINE)
    if table:
        counted = {"--machine NAME:COUNT": count}
        _refuse_strays("--table asks for nothing but a kind of machine", budget | recipes | counted)
        named = {"utilisation": utilisation, "length": length, "vocabulary": vocabulary}
        _table(name, load_hardware(hardware), _law(law), json, html, named)
        return
    if recipe is None:
        _refuse_strays("without --recipe none is written", {"--choice": choice})
    machines, found_law = load_hardware(hardware), _law(law)
    question = Question(
        money=number(money, "--money"),
        hours=None if hours is None else as_hours(hours, where="--hours"),
        machine=name,
        devices=count,
        params=number(params, "--params"),
        tokens=number(tokens, "--tokens"),
        loss=number(loss, "--loss"),
        serve_tokens=number(serve_tokens, "--serve-tokens"),
        unique_tokens=number(unique_tokens, "--unique-tokens"),
        length=length,
        vocabulary=vocabulary,
        utilisation=utilisation,
    )
    _answer(question, machines, found_law, json, html, recipe, choice)


def _refuse_strays(why: str, strays: Mapping[str, object]) -> None:
    """Raise UserError for the first option that was given and would say nothing."""
    for name, value in strays.items():
        if value is not None:
            raise UserError(f"{why}: {name} would say nothing", where=name, todo="leave it out")


def _answer(
    question: Question,
    machines: Hardware,
    law: ParametricLaw,
    json: Path | None,
    html: Path | None,
    recipe: Path | None,
    choice: str | None,
) -> None:
    from headway.base.files import refuse_same, write_atomic
    from headway.scaling.plan import make_plan
    from headway.scaling.plan_page import write_page
    from headway.scaling.plan_recipe import find_choice, plan_recipe
    from headway.settings.toml import dump_toml

    refuse_same(json, html, recipe)
    refuse_same(html, recipe)
    found = make_plan(question, machines, law)
    chosen = find_choice(found, choice)
    written = None if recipe is None else dump_toml(plan_recipe(chosen, question.machine))
    _tell(found)
    write_json(json, found.to_table())
    if html is not None:
        write_page(found, html)
    if recipe is not None and written is not None:
        write_atomic(recipe, written)


def _calibrate(
    places: list[Path], machine: str | None, hardware: Path | None, json: Path | None
) -> None:
    """Learn how fast a machine is, keep it, and say how well it tells the runs."""
    from dataclasses import asdict

    from headway.scaling.calibrate import calibrate, calibration_lines, find_runs, keep, read_timed
    from headway.scaling.hardware import refuse_name

    if machine is not None:
        refuse_name(machine, "--machine")
    found = calibrate([read_timed(run) for run in find_runs(places)])
    place, name = keep(found, machine, hardware)
    print("\n".join(calibration_lines(found)))
    print(f"kept in {place}\nplan with it: headway plan --hours 10min --machine {name}")
    write_json(json, asdict(found))


def _law(name: str) -> ParametricLaw:
    from headway.scaling.own_law import load_law

    return load_law(name)


def _tell(found: Plan) -> None:
    """The choices as a table, what they rest on, and what to beware of."""
    from headway.base.showing import Table
    from headway.scaling.plan import assumptions
    from headway.scaling.plan_page import outside_text, plan_rows, question_text

    rows = [(name, *(value or "–" for value in values)) for name, values in plan_rows(found)]
    head = ("", *(choice.name for choice in found.choices))
    print(f"{question_text(found)}\n\n{Table(head, rows)}\n")
    for choice in found.choices:
        print(f"{choice.name}: {choice.why}")
    print()
    for line in (*assumptions(found), *outside_text(found)):
        print(line)


def _table(
    name: str,
    machines: Hardware,
    law: ParametricLaw,
    json: Path | None,
    html: Path | None,
    named: Mapping[str, Any],
) -> None:
    from headway.base.files import refuse_same
    from headway.base.showing import Table
    from headway.scaling.plan_table import COLUMNS, plan_table, table_row, write_table_page

    refuse_same(json, html)
    plans, refused = plan_table(name, machines, law, **named)
    print(f"What money buys on {plans[0].machine.name}; behind it, half the size\n")
    print(Table(COLUMNS, [table_row(plan) for plan in plans]))
    print("".join(f"left out: {reason}\n" for reason in refused), end="")
    write_json(json, [plan.to_table() for plan in plans])
    if html is not None:
        write_table_page(plans, refused, html)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(plan)
