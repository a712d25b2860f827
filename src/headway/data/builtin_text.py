"""Text that every machine has: the running interpreter's sources and its documentation."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

_TESTS = {"test", "tests", "idle_test"}
_ELSEWHERE = {"site-packages", "dist-packages", "__pycache__"}


def stdlib_documents() -> Iterator[tuple[str, str]]:
    """Name and text of each module of the standard library, tests left out, sorted by name."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if not (_TESTS | _ELSEWHERE).isdisjoint(name.parts[:-1]):
            continue
        try:
            yield name.as_posix(), path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):  # a few are in other encodings, on purpose
            continue


def pydoc_documents() -> Iterator[tuple[str, str]]:
    """Name and text of each topic that the interpreter's help() knows, sorted by name."""
    from pydoc_data.topics import topics

    yield from sorted(topics.items())
