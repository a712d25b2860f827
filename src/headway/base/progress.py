"""Progress that a person can follow: a live line on a terminal, a rare plain line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from headway.base.runtime import launched

PLAIN_EVERY_S = 30.0  # without a terminal, a line that often is enough to see life in a log


def console() -> Console:
    """Where messages go: standard error, so that results on standard output stay clean."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(line: str) -> None:
    """Tell the person at the terminal something; a live bar stays below it.

    Of several ranks the first speaks.
    """
    if launched().rank == 0:
        print(line, file=sys.stderr, flush=True)


class ProgressBar:
    """Counts units of work of the name `what`; shows time left and a free text.

    `total` is how many there are, None if that cannot be known.

    On a terminal it is a live bar; elsewhere a plain line every 30 seconds.
    """

    def __init__(self, what: str, total: int | None, *, done: int = 0, unit: str = "steps") -> None:
        self.what, self.total, self.done, self.unit = what, total, done, unit
        self.first = done
        self.started = self.spoke = time.monotonic()
        self.console = console()
        self.live = self.console.is_terminal and launched().rank == 0
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(unit),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.live,
            transient=True,
        )
        self.task = self.bar.add_task(what, total=total, completed=done, text="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def advance(self, units: int = 1, text: str = "") -> None:
        """`units` more are done; `text` tells how it goes (loss, tokens/s)."""
        self.done += units
        self.bar.update(self.task, completed=self.done, text=text)
        now = time.monotonic()
        if not self.live and now - self.spoke >= PLAIN_EVERY_S:
            self.spoke = now
            rate = (self.done - self.first) / (now - self.started)
            so_far = f"{self.what}: {self.done}"
            if self.total is None:
                say(f"{so_far} {self.unit}  {text}")
                return
            left = f"  {(self.total - self.done) / rate:.0f} s left" if rate else ""
            say(f"{so_far}/{self.total} {self.unit}  {text}{left}")
