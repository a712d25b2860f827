"""Pairs of sentences: from two parallel files or from a built-in corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headway.base.errors import UserError
from headway.data.cldr import cldr_pairs
from headway.data.lines import odd_lines, read_lines
from headway.settings.data import DataSettings, PairFiles

PartName = Literal["train", "valid", "test"]
CLDR_KEYS = {  # an argument of `cldr_pairs` -> the recipe key that it comes from
    "source": "data.source_language",
    "target": "data.target_language",
    "n": "data.{part}.lines",
    "max_words": "data.{part}.max_words",
    "kinds": "data.{part}.kinds",
}


@dataclass(frozen=True)
class Pairs:
    """Sources and their targets, and what was noticed while reading them."""

    sources: list[str]
    targets: list[str]
    origin: str
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    def texts(self) -> Iterator[str]:
        """All texts of both sides."""
        yield from self.sources
        yield from self.targets

    def digest(self) -> str:
        """SHA-256 of the content, to tell later whether the data are still the same."""
        state = hashlib.sha256()
        for text in self.texts():
            state.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return state.hexdigest()

    def first(self, n: int) -> Pairs:
        """The first `n` pairs."""
        return Pairs(self.sources[:n], self.targets[:n], self.origin)


def load_part(settings: DataSettings, name: PartName) -> Pairs | None:
    """The training, validation or test part of a recipe's data; None if it has none.

    Raises UserError for files that are missing, empty, not UTF-8 or of unequal length.
    """
    part = getattr(settings, name)
    if part is None:
        return None
    if isinstance(part, PairFiles):
        return read_pairs(part.source, part.target, lines=part.lines)
    try:
        made = cldr_pairs(
            settings.source_language,
            settings.target_language,
            n=part.lines,
            split=name,
            seed=part.seed,
            max_words=part.max_words,
            kinds=part.kinds,
        )
    except UserError as error:
        key = CLDR_KEYS.get(error.where or "", "").format(part=name)
        raise UserError(error.what, where=key or error.where, todo=error.todo) from None
    return Pairs(
        [source for source, _ in made], [target for _, target in made], f"{part.corpus} {name}"
    )


def read_pairs(source: str, target: str, *, lines: int | None = None) -> Pairs:
    """Two parallel files, or their first `lines`; pairs with an empty side are left out.

    Raises UserError if the files do not have the same number of lines.
    """
    sides = read_lines(source), read_lines(target)
    if len(sides[0]) != len(sides[1]):
        raise _unequal(source, target, *sides)
    sources, targets = (side[:lines] for side in sides)
    kept = [
        index
        for index, (one, other) in enumerate(zip(sources, targets, strict=True))
        if one.strip() and other.strip()
    ]
    notices = []
    if len(kept) < len(sources):
        notices.append(f"{len(sources) - len(kept)} pairs with an empty side left out")
    for path, side in ((source, sources), (target, targets)):
        odd = odd_lines(side)
        if odd:
            some = ", ".join(map(str, odd[:5]))
            notices.append(f"{path}: {len(odd)} lines hold odd separators or NUL (lines {some})")
    if not kept:
        raise UserError("no pair has text on both sides", where=f"{source}, {target}")
    return Pairs(
        [sources[index] for index in kept],
        [targets[index] for index in kept],
        f"{source}, {target}",
        tuple(notices),
    )


def _unequal(source: str, target: str, sources: list[str], targets: list[str]) -> UserError:
    """Both counts, and the first line where one side is empty: often where they part."""
    pairs = zip(sources, targets, strict=False)
    shorter = min(len(sources), len(targets))
    suspect = next(
        (number for number, (one, other) in enumerate(pairs, 1) if bool(one) != bool(other)),
        shorter + 1,
    )
    return UserError(
        f"the files have {len(sources)} and {len(targets)} lines",
        where=f"{source}, {target}",
        todo=f"line i of one must belong to line i of the other; look at line {suspect}",
    )
