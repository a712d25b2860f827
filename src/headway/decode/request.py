"""A text to be continued, by settings of its own, and what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.decode.repetition import Repetition
from headway.decode.sampling import Draw, stream
from headway.decode.steps import NEVER, Hypothesis, check_limits, not_a_number


@dataclass(frozen=True, kw_only=True)
class Request:
    """Continue `ids`, of which there is at least one, by at most `limit` tokens.

    Without a `draw` the likeliest token is taken each time. Any of `ends` ends it, and so does
    `until`, by what it says of a token as it comes.
    """

    ids: Sequence[int]
    limit: int
    ends: Collection[int] = ()
    draw: Draw | None = None
    seed: int = 0
    repetition_penalty: float = 1.0
    until: Callable[[int], bool] | None = None

    @property
    def places(self) -> int:
        """How many tokens have to be remembered at the most: the last one is not read."""
        return len(self.ids) + self.limit - 1


class Ticket:
    """A request, and what has become of it so far: new `ids`, their `log_prob`, what went wrong.

    It is `done` when nothing more will come. Raises UserError for settings out of range.
    """

    def __init__(self, request: Request, n_tokens: int, device: torch.device) -> None:
        check_limits(1, [request.limit])
        check_ids(request.ids, n_tokens)
        self.request = request
        self.ids: list[int] = []
        self.log_prob, self.ended, self.cancelled = 0.0, False, False
        self.done = request.limit == 0
        self.error: Exception | None = None
        self._random = stream(request.seed)
        self._repetition: Repetition | None = None
        if request.repetition_penalty != 1.0:
            penalty = request.repetition_penalty
            self._repetition = Repetition(penalty, request.ids, n_tokens, device)

    def cancel(self) -> None:
        """Nothing more is wanted; it may be called from any thread."""
        self.cancelled = self.cancelled or not self.done
        self.done = True

    def result(self) -> Hypothesis:
        """What there is of it. Raises what went wrong."""
        if self.error is not None:
            raise self.error
        return Hypothesis(list(self.ids), self.log_prob, self.log_prob, self.ended)

    @property
    def last(self) -> int:
        """The last token so far."""
        return self.ids[-1] if self.ids else self.request.ids[-1]

    @property
    def weakens(self) -> bool:
        """Whether there is a penalty on what was said before."""
        return self._repetition is not None

    def weakened(self, logits: Tensor) -> Tensor:
        """Logits (1, V) after the penalty on what was said before."""
        return self._repetition.weaken(logits) if self._repetition else logits

    def draw(self) -> float:
        """The next of its own random numbers, in [0, 1)."""
        return float(torch.rand((), generator=self._random))

    def take(self, token: int, log_prob: float) -> None:
        """The next token, of that log-probability: it may be the last. Errors are kept."""
        if self.done:
            return
        if math.isnan(log_prob):
            self._fail(not_a_number())
            return
        if log_prob == NEVER:
            self.done = True
            return
        self.log_prob += log_prob
        if token in self.request.ends:
            self.ended = self.done = True
            return
        self.ids.append(token)
        if self._repetition is not None:
            self._repetition.add(token)
        try:
            stops = self.request.until is not None and self.request.until(token)
        except Exception as error:  # whose request it is learns of it; others go on
            self._fail(error)
        else:
            self.done = self.done or stops or len(self.ids) == self.request.limit

    def _fail(self, error: Exception) -> None:
        self.error, self.done = error, True


def check_ids(ids: Sequence[int], n_tokens: int, which: str = "the prompt") -> None:
    """Raise UserError for an id that a model of so many has no row for."""
    for id in ids:
        if not 0 <= id < n_tokens:
            raise UserError(
                f"{which} has the id {id}; the model's are 0 to {n_tokens - 1:,}",
                where="prompt",
                todo="take the ids from the model's own tokeniser",
            )


def check_places(request: Request, memory: int) -> None:
    """Raise UserError if so many tokens of memory can never hold the request."""
    if request.places > memory:
        raise UserError(
            f"a prompt of {len(request.ids):,} tokens and {request.limit:,} new ones need "
            f"room for {request.places:,}; there is room for {memory:,}",
            where="memory",
            todo="ask for fewer, or give more memory",
        )
