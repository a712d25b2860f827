"""What verbs share that answer line by line: clean stops, a bar, and a word at the end."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self

from headway.base.errors import Interrupted
from headway.base.files import explain_os_errors
from headway.base.progress import ProgressBar, console, say

WINDOW = 2048  # lines that are read, sorted by length, translated and written together
_WORTH_A_FIGURE = 100  # lines; the speed of fewer says nothing
_NAMED = 5  # lines that are named in one message


class Stops:
    """Ctrl-C and SIGTERM end the work between two lines of output, never inside one.

    Used as a context: a signal raises Interrupted, which names the last line that was written; in
    a `writing` block it waits for the block's end. A second signal does not wait.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._waiting: int | None = None
        self._writing = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread, where signals do not arrive anyway
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def writing(self, n: int) -> Iterator[None]:
        """A block that writes the answers to the next `n` lines."""
        self._writing = True
        try:
            yield
            self.lines += n
        finally:
            self._writing = False
        if self._waiting is not None:
            raise self._interrupted(self._waiting)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._writing or self._waiting is not None:
            raise self._interrupted(number)
        self._waiting = number

    def _interrupted(self, number: int) -> Interrupted:
        return Interrupted(number, f"stopped after line {self.lines}")


class Pace:
    """How fast it goes: a live bar for a person who watches, and one figure at the end.

    Used as a context. There is no bar where standard error is no terminal, nor where standard
    input or output is one: lines and bar would stand in each other's way. `count` is asked for the
    number of lines only where there is a bar.
    """

    def __init__(self, what: str, count: Callable[[], int | None]) -> None:
        self.done = 0
        self.started = time.monotonic()
        self._bar: ProgressBar | None = None
        self._typed = sys.stdin.isatty()
        if console().is_terminal and not self._typed and not sys.stdout.isatty():
            self._bar = ProgressBar(what, count(), unit="lines")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.__exit__(kind, error, trace)
        if kind is None and self.done >= _WORTH_A_FIGURE and not self._typed:
            seconds = time.monotonic() - self.started
            say(f"{self.done:,} lines in {seconds:.1f} s: {self._rate()}")

    def tell(self, n: int) -> None:
        """So many more lines are done."""
        self.done += n
        if self._bar:
            self._bar.advance(n, self._rate())

    def _rate(self) -> str:
        return f"{self.done / max(1e-9, time.monotonic() - self.started):.1f} sentences/s"


class LineFile:
    """A text file that others may read while it grows; without a path, nothing."""

    def __init__(self, path: Path | None, file: IO[str] | None) -> None:
        self._path, self._file = path, file

    def write(self, lines: Sequence[str]) -> None:
        """Append whole lines. Raises UserError if the system refuses."""
        if self._path is not None and self._file is not None:
            with explain_os_errors(self._path):
                self._file.writelines(line + "\n" for line in lines)
                self._file.flush()


@contextmanager
def open_lines(path: Path | None) -> Iterator[LineFile]:
    """The file, empty at first, with the folders to it. Raises UserError if it cannot be."""
    if path is None:
        yield LineFile(None, None)
        return
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8", newline="\n")
    try:
        yield LineFile(path, file)
    finally:
        with explain_os_errors(path):  # closing writes what a full disk has refused before
            file.close()


class Unknown:
    """What the tokeniser did not know: counted, and told at the end.

    A model answers to it all the same, which looks as if it had been read. `kind` is what texts are
    numbered as.
    """

    def __init__(self, kind: str = "lines") -> None:
        self._kind = kind
        self._such: list[str] = []
        self._lines: list[int] = []
        self._n = self._tokens = 0

    def note(self, number: int, ids: Sequence[int], unknown: Sequence[str]) -> None:
        """The ids of a line, and what the unknown ones among them were in it."""
        self._tokens += len(ids)
        self._n += len(unknown)
        if unknown and len(self._lines) <= _NAMED:
            self._lines.append(number)
            self._such += [text for text in dict.fromkeys(unknown) if text not in self._such]

    def say(self) -> None:
        """A message on standard error, if there was any."""
        if self._n:
            such = ", ".join(f"'{text}'" for text in self._such[:_NAMED])
            lines = ", ".join(map(str, self._lines[:_NAMED]))
            more = ", …" if len(self._lines) > _NAMED else ""
            say(
                f"notice: unknown to the tokeniser: {self._n:,} of {self._tokens:,} tokens, such "
                f"as {such} ({self._kind} {lines}{more})"
            )


class Unfinished:
    """Translations that were cut at the limit of their length: counted, and told at the end."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {"loop": [], "limit": []}
        self._counts = {"loop": 0, "limit": 0}

    def note(self, number: int, stop: str) -> None:
        """How the translation of a line stopped: `end`, `limit` or `loop`."""
        if stop in self._counts:
            self._counts[stop] += 1
            if len(self._lines[stop]) < _NAMED:
                self._lines[stop].append(number)

    def say(self) -> None:
        """A message on standard error for each kind that there was."""
        for stop, how in (("loop", " while they repeated themselves"), ("limit", "")):
            if n := self._counts[stop]:
                lines = ", ".join(map(str, self._lines[stop]))
                more = ", …" if n > _NAMED else ""
                say(f"notice: translations cut at their limit{how}: {n:,} (lines {lines}{more})")
