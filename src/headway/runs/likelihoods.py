"""How likely a language model finds what might follow, by the rules of lm-evaluation-harness."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.batches.pairs import batch_rows
from headway.evaluate.likelihood import Likelihood
from headway.models.decoder import Decoder, DecoderState
from headway.runs.sentences import LongText
from headway.tokens.text import TextTokenizer
from headway.training.losses import token_statistics

# Padded tokens that are read at a time: on a CPU what does not fit into its caches is slower.
_BATCH_TOKENS_CPU, _BATCH_TOKENS = 512, 8192
_REMEMBERED = 8  # tokens that are only remembered count as one


class Asked(NamedTuple):
    """Ids that a model reads and ids that it might go on with; neither is empty."""

    context: list[int]
    continuation: list[int]

    def read(self) -> tuple[int, ...]:
        """What a model has to read: its states at the end predict the continuation."""
        return tuple(self.context + self.continuation[:-1])


def encode_requests(
    tokenizer: TextTokenizer, requests: Sequence[tuple[str, str]], opening: Callable[[], int]
) -> list[Asked]:
    """The ids of contexts and continuations.

    Blanks at the end of a context belong to the continuation. Both are encoded as one text, of
    which the continuation is what comes after as many ids as the context alone has; where a token
    spans the join so that none is left, the continuation is encoded alone. An empty context is
    `opening()`. Raises UserError for a continuation without a token.
    """
    pairs = [_blanks_moved(*request) for request in requests]
    contexts = tokenizer.prompts([context for context, _ in pairs])
    wholes = tokenizer.prompts([context + continuation for context, continuation in pairs])
    found = []
    for number, (context, whole) in enumerate(zip(contexts, wholes, strict=True), start=1):
        rest = whole[len(context) :]
        if not rest:
            (rest,) = tokenizer.encode([pairs[number - 1][1]])
        if not rest:
            raise UserError(
                f"request {number} has nothing to score: its continuation has no token",
                todo="give it a text to go on with",
            )
        found.append(Asked(context or [opening()], rest))
    return found


def _blanks_moved(context: str, continuation: str) -> tuple[str, str]:
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation


def cut_requests(rows: Sequence[Asked], longest: int) -> list[Asked]:
    """Requests without what is too much of their contexts: the model reads `longest` tokens.

    A warning tells how many were cut. Raises UserError for a longer continuation.
    """
    found, long = [], []
    for number, (context, continuation) in enumerate(rows, start=1):
        if len(continuation) > longest:
            raise UserError(
                f"request {number} has a continuation of {len(continuation):,} tokens; the "
                f"model's context is {longest:,}",
                todo="shorten it, or score it as a whole text",
            )
        kept = context[-(longest + 1 - len(continuation)) :]  # the last token is not read
        if len(kept) < len(context):
            long.append(number)
        found.append(Asked(kept, continuation))
    _tell_of_cut("request", long, f"than the {longest:,} of the model's context")
    return found


def cut_prompts(rows: Sequence[list[int]], longest: int, n_new: int) -> list[list[int]]:
    """Prompts without what is too much of their beginnings: what is to come has room behind them.

    That is `n_new` tokens of the `longest` that the model reads, or half of these if they are
    fewer than twice as many. A warning tells how many prompts were cut.
    """
    room = max(longest - n_new, longest // 2, 1)
    long = [number for number, row in enumerate(rows, start=1) if len(row) > room]
    more = f"than the {room:,} that leave room in the model's context of {longest:,}"
    _tell_of_cut("prompt", long, more)
    return [row[-room:] for row in rows]


def _tell_of_cut(what: str, long: Sequence[int], more: str) -> None:
    if long:
        told = f"{what} {long[0]} has" if len(long) == 1 else f"{len(long):,} {what}s have"
        # one place for all callers, so that Python tells the same thing once
        warnings.warn(
            f"{told} more tokens {more}: the beginning is left out", LongText, stacklevel=1
        )


def windows(ids: list[int], opening: int, longest: int) -> Iterator[Asked]:
    """A text of any length as requests of which each token is scored in one.

    The first window begins after `opening`; each further one has as much context as there is
    room for.
    """
    if ids:
        yield Asked([opening], ids[:longest])
    for begin in range(longest, len(ids), longest):
        end = min(begin + longest, len(ids))
        yield Asked(ids[end - longest - 1 : begin], ids[begin:end])


@torch.inference_mode()
def likelihoods(
    model: Decoder,
    rows: Sequence[Asked],
    *,
    device: torch.device,
    batch_tokens: int | None = None,
    tell: Callable[[int], object] | None = None,
) -> list[Likelihood]:
    """How likely the model finds each continuation after its context.

    What all rows begin with is read once, and so are rows that differ in their last token alone
    (choices of one token). The others go in batches of like lengths, of `batch_tokens` padded
    tokens (what suits the device if None).
    """
    same: dict[tuple[int, ...], list[int]] = {}
    for place, row in enumerate(rows):
        same.setdefault(row.read(), []).append(place)
    texts = list(same)
    shared = _shared(texts, rows)
    begun = torch.tensor([texts[0][:shared]] if texts else [[]], device=device)
    state = model.start(begun.long(), torch.tensor([shared], device=device))
    lengths = np.array([len(text) - shared + shared // _REMEMBERED for text in texts], np.int64)
    budget = batch_tokens or (_BATCH_TOKENS_CPU if device.type == "cpu" else _BATCH_TOKENS)
    found = [Likelihood()] * len(rows)
    for batch in batch_rows(lengths, lengths, budget, np.arange(len(texts))):
        chosen = [texts[each] for each in batch]
        hidden = _read(model, state, [text[shared:] for text in chosen], device)
        asked = [(place, line) for line, text in enumerate(chosen) for place in same[text]]
        for place, likelihood in _score(model, hidden, asked, rows, shared):
            found[place] = likelihood
        if tell:
            tell(len(asked))
    return found


def _shared(texts: Sequence[tuple[int, ...]], rows: Sequence[Asked]) -> int:
    """How many ids all texts begin with; one of each context is left to be read after them."""
    if not texts:
        return 0
    first, last = min(texts), max(texts)
    most = min(len(row.context) - 1 for row in rows)
    pairs = enumerate(zip(first[:most], last[:most], strict=True))
    return next((place for place, (one, other) in pairs if one != other), most)


def _read(
    model: Decoder, state: DecoderState, texts: Sequence[tuple[int, ...]], device: torch.device
) -> Tensor:
    """The states (N, T, D) of N texts after a common beginning; padding comes after a text."""
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
    for line, text in enumerate(texts):
        ids[line, : len(text)] = torch.tensor(text)
    begun = state.select(torch.zeros(len(texts), dtype=torch.int64, device=device))
    return model.read(ids.to(device), begun)[0]


def _score(
    model: Decoder,
    hidden: Tensor,
    asked: Sequence[tuple[int, int]],
    rows: Sequence[Asked],
    shared: int,
) -> Iterator[tuple[int, Likelihood]]:
    """The likelihood of each row asked, (its place, its line of `hidden`): logits of it alone."""
    lines: list[int] = []
    places: list[int] = []
    wanted: list[int] = []
    for place, line in asked:
        context, continuation = rows[place]
        begin = len(context) - 1 - shared
        lines += [line] * len(continuation)
        places += range(begin, begin + len(continuation))
        wanted += continuation
    at = [torch.tensor(each, device=hidden.device) for each in (lines, places, wanted)]
    statistics = token_statistics(hidden[at[0], at[1]], model.head, at[2])
    counts = [len(rows[place].continuation) for place, _ in asked]
    nll, right = (torch.split(part.cpu(), counts) for part in statistics)
    for (place, _), losses, hits in zip(asked, nll, right, strict=True):
        yield place, Likelihood(float(losses.double().sum()), len(losses), int(hits.sum()))
