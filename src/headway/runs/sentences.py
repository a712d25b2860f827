"""Many sources through a model: batches of like lengths, results in the order of the texts."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from headway.base.progress import ProgressBar
from headway.batches.pairs import EncodedSide, batch_rows

Result = TypeVar("Result")
Progress = bool | Callable[[int], object]
"""True: a bar. A function: it is told of each batch how many texts are done."""


@dataclass(frozen=True)
class SourceBatch:
    """Some sources, the longest translation each may have, and their places among all texts."""

    ids: Tensor  # (B, S)
    lengths: Tensor  # (B,)
    limits: list[int]
    places: list[int]


NAMED = 20  # long texts that a warning names


class LongText(UserWarning):
    """A text was cut to what the model can read."""


def cut(
    rows: list[list[int]], max_length: int, *, eos: int, numbers: Sequence[int], what: str = "line"
) -> list[list[int]]:
    """Rows of ids, each cut to `max_length` of which the last is `eos`.

    One LongText warning names the numbers of those that were cut, the first of them if they are
    many: a stream may have a long line in every window.
    """
    long = [(numbers[place], len(row)) for place, row in enumerate(rows) if len(row) > max_length]
    if not long:
        return rows
    tell_of_cut(long, max_length, what=what)
    return [[*row[: max_length - 1], eos] if len(row) > max_length else row for row in rows]


def tell_of_cut(long: Sequence[tuple[int, int]], longest: int, *, what: str) -> None:
    """Warn of texts, each its number and how many tokens it has, that were cut to `longest`."""
    names = [str(number) for number, _ in long[:NAMED]]
    if len(long) == 1:
        told = f"{what} {names[0]} has {long[0][1]} tokens and was cut to the {longest}"
    else:
        more = f", … ({len(long):,} in all)" if len(long) > NAMED else ""
        told = f"{what}s {', '.join(names)}{more} have more tokens and were cut to the {longest}"
    # one place for all callers, so that Python tells the same thing once
    warnings.warn(f"{told} that the model can read", LongText, stacklevel=1)


def each_source(
    texts: Sequence[str],
    work: Callable[[SourceBatch], list[Result]],
    *,
    encode: Callable[[Sequence[str]], list[list[int]]],
    pad: int,
    eos: int,
    max_length: int,
    max_ratio: float,
    budget: int,
    device: torch.device,
    nothing: Result,
    progress: Progress,
    first: int,
) -> list[Result]:
    """Do `work` on batches of at most `budget` padded tokens; `nothing` for texts without any.

    `first` is the number of the first text: in warnings, and in `places` (which count from 0).

    A text of more than `max_length` tokens is cut, with a warning that names its line (see `cut`).
    A translation may have `max_ratio` × source tokens + 10, and at most `max_length`.
    """
    filled = [place for place, text in enumerate(texts) if text.strip()]
    rows = encode([texts[place] for place in filled])
    rows = cut(rows, max_length, eos=eos, numbers=[place + first for place in filled])
    side = EncodedSide.of(rows)
    results = [nothing] * len(texts)
    lengths = side.lengths
    bar = ProgressBar("translating", len(filled), unit="sentences") if progress is True else None
    tell = bar.advance if bar else progress if callable(progress) else None
    with bar or contextlib.nullcontext():
        for chosen in batch_rows(lengths, lengths, budget, np.arange(len(rows))):
            ids, real = side.pad(chosen, pad)
            places = [filled[row] for row in chosen]
            limits = [int(min(n * max_ratio + 10, max_length)) for n in lengths[chosen].tolist()]
            numbers = [place + first - 1 for place in places]
            batch = SourceBatch(ids.to(device), real.sum(dim=1).to(device), limits, numbers)
            for place, result in zip(places, work(batch), strict=True):
                results[place] = result
            if tell:
                tell(len(places))
    return results
