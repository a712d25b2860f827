"""What a user can put right, said in one message: what, where, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LONGEST = 1000  # letters: a file's own names can have any number


class UserError(Exception):
    """A mistake in the input that the user can put right; the command line exits with code 2.

    `what` says what is wrong in one sentence without a full stop, `where` the file and line or
    the key, `todo` what to do about it. Of a `what` that quotes too much the beginning is kept.
    """

    def __init__(self, what: str, *, where: str | None = None, todo: str | None = None) -> None:
        what = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}…"
        self.what, self.where, self.todo = what, where, todo
        place = f"{where}: " if where else ""
        advice = f"; {todo}" if todo else ""
        super().__init__(f"{place}{what}{advice}")


class Interrupted(Exception):
    """The run was asked to stop (Ctrl-C or SIGTERM) and has saved its state.

    `signal` is the signal's number: the command line exits with 128 + `signal`, as shells do.
    """

    def __init__(self, signal: int, message: str) -> None:
        self.signal = signal
        super().__init__(message)


def is_broken(text: str) -> bool:
    """Whether a text has halves of surrogate pairs, as a name that is not UTF-8 comes to us."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


_MOST_LETTERS = 500  # of all the names that a message lists
_NO_MEMORY = re.compile(r"can't allocate memory|size calculation overflowed|out of memory", re.I)
_ASKED = re.compile(r"allocate ([\d.]+ ?\w+)")


def no_memory(error: Exception) -> UserError | None:
    """The message for an error that says that memory ran out, None for any other.

    torch has no class for it on the CPU, only words.
    """
    text = str(error)
    if not (isinstance(error, MemoryError) or _NO_MEMORY.search(text)):
        return None
    asked = _ASKED.search(text)
    return UserError(
        "there is not enough memory" + (f" for {asked[1]} more" if asked else ""),
        todo="make the model, the batches (batch_tokens) or the beam smaller",
    )


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` most likely meant, or None if nothing is near."""
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return found[0] if found else None


def unknown(kind: str, word: str, choices: Iterable[str], *, where: str | None = None) -> UserError:
    """A UserError for a name that does not exist, naming the nearest one and all the others.

    Names can be a file's: of what is longer than a message should be, the beginning is shown.
    """
    word, known = word[:_MOST_LETTERS], sorted(visible(name[:_MOST_LETTERS]) for name in choices)
    near = nearest(word, known)
    todo = f"did you mean '{near}'? " if near else ""
    listed = ", ".join(known)
    if len(listed) > _MOST_LETTERS:
        listed = f"{listed[:_MOST_LETTERS]}…"
    return UserError(f"unknown {kind} '{word}'", where=where, todo=f"{todo}known: {listed}")


def visible(text: str) -> str:
    """Text without what would move the cursor."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
