"""The command line: one file a verb, and one place that turns mistakes into messages."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TextIO

import typer

from headway import __version__
from headway.base.errors import Interrupted, UserError
from headway.cli import attention, demo, evaluate, info, recipes, train, translate

app = typer.Typer(
    name="headway",
    help="Train, evaluate and inspect Transformers on the machine you have.",
    epilog="Begin with: headway demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (demo, train, translate, evaluate, attention, recipes, info):
    verb.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headway {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Options before the verb; --debug is read in `main`, wherever it stands."""


def main() -> None:
    """Run a command. Exit codes: 0 done, 2 a mistake in the input, 128 + n stopped by signal n."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    warnings.showwarning = _show_warning
    try:
        app()
    except UserError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stopped:
        print(str(stopped), file=sys.stderr)
        sys.exit(128 + stopped.signal)
    except BrokenPipeError:
        # whoever read our output has left; without this Python complains once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Warnings as one line, without the place in our code that noticed."""
    print(f"warning: {message}", file=sys.stderr)
