"""headway scaling sweep, report and coordinates"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.base.errors import Interrupted, UserError
from headway.cli.options import JsonFile, refuse_inputs, write_json
from headway.cli.scaling import Picture, scaling
from headway.cli.train import Settings

if TYPE_CHECKING:
    from headway.scaling.sweep import Sweep
    from headway.settings.kinds import LanguageRecipe

_SIZES = "0.35x,0.6x,1x,1.7x,2.8x"
_Folder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The sweep's folder.")]


def sweep(  # long: its options
    recipe: Annotated[
        str | None,
        typer.Argument(help="A shipped recipe or a TOML file; none to go on.", show_default=False),
    ] = None,
    out: _Folder = Path("runs/sweep"),
    budgets: Annotated[
        str | None,
        typer.Option(metavar="FLOPS,…", help="Compute of a run: 1e12,1e13.", show_default=False),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            metavar="N,…",
            help="Parameters, 0.1M, or times those with 20 tokens each at the budget, 0.5x.",
        ),
    ] = _SIZES,
    held_out: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            metavar="FACTOR",
            help="Forecast a run of so many times the greatest budget, then make it.",
            show_default=False,
        ),
    ] = None,
    settings: Settings = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    device: Annotated[
        str, typer.Option(help="Devices that these take in turn: cpu, or cuda:0,cuda:1.")
    ] = "auto",
    listed: Annotated[
        bool, typer.Option("--list", help="Show the runs and a Slurm line; train nothing.")
    ] = False,
    job: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Train the K-th run alone.", show_default=False),
    ] = None,
) -> None:
    """Train a grid of sizes at equal compute, fit the law, forecast a larger run and make it.

    Sizes keep the recipe's proportions; its learning rate is carried to other widths by μP.
    Called again with --out alone it goes on where it was, even after kill -9.

    Example: headway scaling sweep lm/bytes --budgets 5e10,1.6e11,5e11 --held-out 4 --out runs/law

    Example: headway scaling sweep --out runs/law --list
    """
    from headway.scaling.sweep_run import list_runs, run_one, run_sweep

    found = _sweep(recipe, out, budgets, sizes, held_out, settings)
    devices = [name.strip() for name in device.split(",")]
    if listed:
        print(list_runs(found))
    elif job is not None:
        run_one(found, job, device=devices[0])
    else:
        try:
            run_sweep(found, processes=jobs, devices=devices)
        except Interrupted as stopped:
            again = f"go on with: headway scaling sweep --out {out}"
            raise Interrupted(stopped.signal, f"{stopped}\n{again}") from None
        print(f"{out}/report.html")


def _sweep(
    recipe: str | None,
    out: Path,
    budgets: str | None,
    sizes: str,
    held_out: float | None,
    settings: list[str] | None,
) -> Sweep:
    """A new sweep, or that of the folder."""
    from headway.scaling.grid import budgets_of, sizes_of
    from headway.scaling.sweep import begin_sweep, open_sweep

    if recipe is None:
        if budgets is not None or held_out is not None or settings or sizes != _SIZES:
            raise UserError("no recipe is named", todo="name one, or go on with --out alone")
        return open_sweep(out)
    if budgets is None:
        raise UserError("no compute is named", where="--budgets", todo="such as 1e12,3e12,1e13")
    asked = budgets_of(budgets), sizes_of(sizes)
    return begin_sweep(out, _recipe(recipe, settings), *asked, held_out)


def _recipe(recipe: str, settings: list[str] | None) -> LanguageRecipe:
    """A recipe of a causal language model. Raises UserError for another."""
    from headway.settings.kinds import LanguageRecipe
    from headway.settings.recipe import load_recipe, parse_overrides

    found = load_recipe(recipe, parse_overrides(settings or []))
    if not isinstance(found, LanguageRecipe):
        todo = "data.kind is 'documents' and model.kind 'decoder'"
        raise UserError("not the recipe of a causal language model", where=recipe, todo=todo)
    return found


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")],
) -> None:
    """Fit a law to the finished runs of a sweep; write its page and JSON.

    Example: headway scaling report runs/law
    """
    from headway.scaling.sweep import open_sweep
    from headway.scaling.sweep_report import PAGE, write_sweep_report

    print("\n".join(write_sweep_report(open_sweep(folder))))
    print(folder / PAGE)


def coordinates(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe or a TOML file.")],
    settings: Settings = None,
    widths: Annotated[str, typer.Option(metavar="D,…", help="To compare.")] = "64,128,256",
    steps: Annotated[int, typer.Option(min=1, help="Of training, on one batch.")] = 5,
    picture: Picture = None,
    json: JsonFile = None,
) -> None:
    """Check that activations change as much at all widths, standard and by μP (train.mup).

    Shown is the power of the width by which the change grows; by μP it is near 0.

    Example: headway scaling coordinates lm/stdlib --widths 48,96,192 --picture check.svg
    """
    from headway.base.showing import Table
    from headway.lens.figures import picture_kind

    refuse_inputs(json, picture)
    if picture is not None:
        picture_kind(picture)
    if not all(part.strip().isdecimal() for part in widths.split(",")):
        raise UserError(f"'{widths}' are no widths", where="--widths", todo="such as 64,128,256")
    asked = _recipe(recipe, settings)
    from headway.scaling.coordinates import (
        coordinate_check,
        coordinates_record,
        draw_coordinates,
        slopes,
    )

    found = coordinate_check(asked, [int(part) for part in widths.split(",")], steps=steps)
    grows = slopes(found)
    names = list(next(iter(grows.values())))
    rows: list[tuple[Any, ...]] = [
        (name, *(f"{parts[part]:+.2f}" for part in names)) for name, parts in grows.items()
    ]
    print(Table(("change ∝ width^", *names), rows))
    write_json(json, coordinates_record(found))
    if picture is not None:
        draw_coordinates(found, picture)


def add_to(app: typer.Typer) -> None:
    """Add the verbs to `scaling`, which is there already."""
    for verb in (sweep, report, coordinates):
        scaling.command()(verb)
