"""What a language model writes: as it grows, and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.decode.steps import Hypothesis
from headway.tokens.text import TextTokenizer

Reason = Literal["end", "stop", "limit"]
OnText = Callable[[int, str], None]
"""Told of each prompt's next piece of text as it becomes certain."""


@dataclass(frozen=True)
class Generated:
    """What a prompt was continued by: text and ids of the new part, and why it stopped.

    `reason` is "end" (by an end token), "stop" (at a stop text) or "limit". `log_prob` is the
    model's own, of all the ids and the end.
    """

    text: str
    ids: list[int]
    reason: Reason
    log_prob: float


class Writer:
    """The text of one row as it grows; sends on what can no longer become a stop text."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        last: int,
        stop: Sequence[str],
        row: int,
        on_text: OnText | None,
    ) -> None:
        self.tokenizer, self.last, self.stop, self.row = tokenizer, last, stop, row
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

    def finish(self, hypothesis: Hypothesis) -> Generated:
        """All of it: what was held back, and half a letter at the end, come out now."""
        if not self.stopped:
            self.text = self.tokenizer.continuation(hypothesis.ids, self.last)
            self._send(len(self.text))
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
            self.on_text(self.row, self.text[self.sent : end])
        self.sent = max(self.sent, end)
