"""The command line: one file a verb, and one place that turns mistakes into messages."""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
from typing import TextIO

import typer

from headway import __version__
from headway.base.errors import Interrupted, UserError, no_memory
from headway.base.files import NO_ROOM
from headway.base.runtime import launched
from headway.cli import (
    attention,
    bench,
    classify,
    data,
    demo,
    embed,
    evaluate,
    exchange,
    fill,
    finetune,
    generate,
    info,
    plan,
    prompt,
    recipes,
    scaling,
    score,
    study,
    sweeps,
    tokenizer,
    train,
    translate,
)
from headway.cli.options import name_values

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
for verb in (
    demo,
    train,
    finetune,
    translate,
    generate,
    fill,
    classify,
    embed,
    prompt,
    exchange,
    score,
    evaluate,
    attention,
    data,
    tokenizer,
    study,
    plan,
    scaling,
    sweeps,
    bench,
    recipes,
    info,
):
    verb.add_to(app)
name_values(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headway {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        metavar="",
        callback=_version,
        is_eager=True,
        help="Print the version and leave.",
    ),
    debug: bool = typer.Option(
        False, "--debug", metavar="", help="Show the traceback of an error."
    ),
) -> None:
    """Options before the verb; --debug is read in `main`, wherever it stands."""


def main() -> None:
    """Run a command. Exit codes: 0 done, 2 a mistake in the input, 128 + n stopped by signal n."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    warnings.showwarning = _show_warning
    threading.excepthook = _show_thread_error
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an arrow must not end it on a Latin-1 terminal
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # while it can still be told that the disk is full
    except UserError as error:
        if debug:
            raise
        _tell(str(error))
        sys.exit(2)
    except Interrupted as stopped:
        if launched().rank == 0:
            print(str(stopped), file=sys.stderr)
        sys.exit(128 + stopped.signal)
    except (MemoryError, RuntimeError) as error:
        told = None if debug else no_memory(error)
        if told is None:
            raise
        _tell(str(told))
        sys.exit(2)
    except BrokenPipeError:
        _forget_output()  # whoever read it has left
        sys.exit(1)
    except OSError as error:
        full = error.errno in NO_ROOM
        if debug or not (full or error.filename):
            raise
        if full:
            _forget_output()
        where, what = error.filename or "standard output", NO_ROOM.get(error.errno or 0)
        _tell(f"{where}: {what or error.strerror}")
        sys.exit(2)


def _tell(error: str) -> None:
    """What went wrong, and on which rank if that is not the first."""
    rank = launched().rank
    place = f"rank {rank}: " if rank else ""
    print(f"{place}error: {error}", file=sys.stderr)


def _open_closed_streams() -> None:
    """Give a process that was started without standard streams (cron, <&-) empty ones.

    They take the numbers 0 to 2, so that no file of ours gets one and is written into.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _forget_output() -> None:
    """Keep Python from writing, and complaining of, what is left of the output once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_thread_error(error: threading.ExceptHookArgs) -> None:
    """Nothing of a disk that refuses TensorBoard's thread: its next call says so as well."""
    if not isinstance(error.exc_value, OSError):
        threading.__excepthook__(error)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Warnings as one line, without the place in our code that noticed."""
    if launched().rank == 0:
        print(f"warning: {message}", file=sys.stderr)
