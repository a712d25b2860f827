"""What a language model writes: as it grows, and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.base.errors import UserError
from headway.decode.sampling import Draw
from headway.decode.steps import Hypothesis
from headway.tokens.text import TextTokenizer

Reason = Literal["end", "stop", "limit", "cancelled"]
OnText = Callable[[int, str], None]
"""Told of each prompt's next piece of text as it becomes certain."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; `temperature` 0 takes the likeliest.

    `stop` are texts at which to stop; they are left out. `seed` is that of the first prompt, each
    further one has the next. Raises UserError as `Draw` does, and for a stop text that is empty.
    """

    max_new_tokens: int = 128
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: Sequence[str] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            raise UserError("stop texts are several", where="stop", todo='write ("END",) for one')
        if not all(self.stop):
            raise UserError("an empty text would stop at once", where="stop")
        self.draw()

    def draw(self) -> Draw | None:
        """What is drawn from; None for the likeliest."""
        if self.temperature == 0:
            return None
        return Draw(self.temperature, self.top_k, self.top_p, self.min_p)


@dataclass(frozen=True)
class Generated:
    """What a prompt was continued by: text and ids of the new part, and why it stopped.

    `reason` is "end" (by an end token), "stop" (at a stop text), "limit" or "cancelled". `log_prob`
    is the model's own, of all the ids and the end. Of the tokens that a draft guessed so many were
    `accepted`.
    """

    text: str
    ids: list[int]
    reason: Reason
    log_prob: float
    guessed: int = 0
    accepted: int = 0


class Writer:
    """The text of one row as it grows; sends on what can no longer become a stop text."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        last: int,
        stop: Sequence[str],
        on_text: Callable[[str], object] | None,
    ) -> None:
        self.tokenizer, self.last, self.stop = tokenizer, last, stop
        self.next, self.on_text = tokenizer.stream(last), on_text
        self.text, self.sent, self.stopped = "", 0, False

    def add(self, token: int) -> bool:
        """Take the next token; True if a stop text is now complete."""
        before = len(self.text)
        self.text += self.next(token)
        found = [
            place
            for stop in self.stop
            if (place := self.text.find(stop, max(0, before - len(stop)))) >= 0
        ]
        if found:
            self.text, self.stopped = self.text[: min(found)], True
            self._send(len(self.text))
        else:
            self._send(len(self.text) - self._held_back())
        return self.stopped

    def finish(self, hypothesis: Hypothesis, *, cancelled: bool = False) -> Generated:
        """All of it: what was held back, and half a letter at the end, come out now.

        Of what was cancelled nothing more is sent.
        """
        if cancelled:
            text = self.text[: self.sent]
            return Generated(text, hypothesis.ids, "cancelled", hypothesis.log_prob)
        if not self.stopped:
            whole = self.tokenizer.continuation(hypothesis.ids, self.last)
            if whole.startswith(self.text[: self.sent]):
                self.text = whole
            self._send(len(self.text))  # of bytes that were spoiled later, what was certain then
            self.text, self.sent = whole, len(whole)
        reason: Reason = "stop" if self.stopped else "end" if hypothesis.ended else "limit"
        return Generated(self.text, hypothesis.ids, reason, hypothesis.log_prob)

    def _held_back(self) -> int:
        """How many of the last letters may be the beginning of a stop text."""
        return max(
            (
                n
                for stop in self.stop
                for n in range(1, min(len(stop), len(self.text) + 1))
                if self.text.endswith(stop[:n])
            ),
            default=0,
        )

    def _send(self, end: int) -> None:
        if self.on_text is not None and end > self.sent:
            self.on_text(self.text[self.sent : end])
        self.sent = max(self.sent, end)
