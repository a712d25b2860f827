"""headway scaling"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.base.errors import UserError
from headway.cli.options import JsonFile, refuse_inputs, write_json

if TYPE_CHECKING:
    from headway.scaling.points import Points

scaling = typer.Typer(
    help="Laws of the loss: fit your own, ask the published ones.", no_args_is_help=True
)
Picture = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw it there (.svg or .png).", show_default=False),
]
_Column = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column of a table; by its usual names if not set."),
]
_Number = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Such as 7B, 1.5T, 3e21.", show_default=False)
]


@scaling.command()
def fit(  # long: its options
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE.csv|RUN", help="A table, one run a row, or folders of runs."),
    ],
    law: Annotated[
        Literal["chinchilla", "isoflop", "envelope", "power"],
        typer.Option(
            help="chinchilla: a loss of size and tokens; isoflop: the best size at each compute; "
            "envelope: the same from training curves; power: one quantity, --x."
        ),
    ] = "chinchilla",
    size_column: _Column = None,
    flop_column: _Column = None,
    tokens_column: _Column = None,
    loss_column: _Column = None,
    x: Annotated[
        Literal["flop", "params", "tokens"],
        typer.Option(help="With --law power: what the loss falls with."),
    ] = "flop",
    drop_highest: Annotated[
        int, typer.Option(min=0, metavar="N", help="Leave out the N runs of highest loss.")
    ] = 0,
    resamples: Annotated[
        int, typer.Option(min=0, help="Fits to runs drawn anew, for the intervals; 0 for none.")
    ] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Draws these; the fit is the same.")] = 1,
    picture: Picture = None,
    json: JsonFile = None,
) -> None:
    r"""Fit a law to measured runs: constants, intervals, residuals, a forecast of the largest.

    A table needs the loss and two of size, tokens and FLOPs; the third follows from FLOPs = 6 ·
    size · tokens. Needs pip install 'headway\[scaling]'.

    Example: headway scaling fit runs.csv --drop-highest 5 --json fit.json --picture fit.svg

    Example: headway scaling fit runs/sweep/runs/*
    """
    if picture is not None:
        from headway.lens.figures import picture_kind

        picture_kind(picture)
    refuse_inputs(json, *paths, picture)
    refuse_inputs(picture, *paths)
    columns = {
        "params": size_column,
        "flop": flop_column,
        "tokens": tokens_column,
        "loss": loss_column,
    }
    points = _points(paths, columns, curves=law == "envelope").without_highest(drop_highest)
    from headway.scaling import fitting

    found = fitting.fit(points, law, x=x, resamples=resamples, seed=seed)
    print("\n".join(found.lines))
    write_json(json, found.record)
    if picture is not None:
        found.draw(picture)


def _points(paths: list[Path], columns: dict[str, str | None], *, curves: bool) -> Points:
    """The runs of a table or of folders."""
    from headway.scaling.points import read_csv, read_curves, read_runs

    tables = [path for path in paths if not path.is_dir()]
    if len(tables) == len(paths) == 1:
        return read_csv(tables[0], columns)
    if tables:
        todo = "name one table, or folders of runs"
        raise UserError("this is no folder of a run", where=str(tables[0]), todo=todo)
    if named := [column for column in columns.values() if column is not None]:
        raise UserError(f"runs have no column '{named[0]}'", todo="columns are for a table")
    return read_curves(paths) if curves else read_runs(paths)


@scaling.command()
def laws(  # long: its options
    names: Annotated[
        list[str] | None, typer.Argument(metavar="LAW", help="Which; all if none is named.")
    ] = None,
    flop: _Number = None,
    params: _Number = None,
    tokens: _Number = None,
    loss: Annotated[
        str | None, typer.Option(metavar="NATS", help="A loss to reach.", show_default=False)
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="So many tokens are different; the rest repeats them."),
    ] = None,
    served: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Tokens read and written later, with --loss."),
    ] = None,
    picture: Picture = None,
    json: JsonFile = None,
) -> None:
    """List the published laws, or ask them one question.

    --flop: the best size and tokens. --params: the tokens that suit it. --params and --tokens: the
    loss. --loss: the cheapest size and tokens, or with --params or --tokens the other of these.

    Example: headway scaling laws --flop 5.76e23

    Example: headway scaling laws sardana --loss 2.05 --served 2T
    """
    refuse_inputs(json, picture)
    from headway.scaling.answers import answers_table, ask, laws_record, laws_table
    from headway.scaling.published import LAWS, find_law
    from headway.scaling.units import quantity

    asked = {"flop": flop, "params": params, "tokens": tokens, "loss": loss}
    asked |= {"unique": unique, "served": served}
    given = {
        name: quantity(text, where=f"--{name}") for name, text in asked.items() if text is not None
    }
    chosen = [find_law(name) for name in names or LAWS]
    if given:
        answers, refusals = ask(chosen, **given)
        print(answers_table(answers))
        print("".join(f"note: {refusal}\n" for refusal in refusals), end="")
        write_json(json, [vars(answer) for answer in answers])
    else:
        print(laws_table(chosen))
        write_json(json, laws_record(chosen))
    if picture is not None:
        from headway.scaling.pictures import draw_laws

        draw_laws(picture)


@scaling.command()
def table(json: JsonFile = None) -> None:
    """Show Hoffmann's table of best tokens beside what the published constants give.

    Columns 1 to 3 are printed in the paper, for its three approaches. The others follow from
    constants of approach 3: as printed, rounded; with all digits of the paper's source; fitted
    again in 2024.
    """
    from headway.scaling.answers import chinchilla_rows, chinchilla_table

    print(chinchilla_table())
    write_json(json, chinchilla_rows())


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.add_typer(scaling, name="scaling")
