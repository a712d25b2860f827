"""Speculative decoding: something quick guesses tokens, the model judges several in one step.

Leviathan et al., 2023 (arXiv 2211.17192), algorithm 1. What is written is what the model alone
would write: the same tokens when the likeliest is taken, tokens of the same distribution when they
are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.decode.request import Request, Ticket
from headway.decode.sampling import pick
from headway.decode.steps import NEVER, PIECE, Serves, Slots, home, upload

_FIRST, _MOST = 4, 8  # guesses at once
_LONGEST, _SHORTEST = 3, 2  # tokens that are looked up


@dataclass(frozen=True)
class Guess:
    """Tokens that may come next; each was drawn from its row of `odds` (n, V), or from nothing."""

    ids: list[int]
    odds: Tensor | None = None


class Draft(Protocol):
    """Something that guesses how a text goes on."""

    def guess(self, ids: Sequence[int], n: int, ticket: Ticket, /) -> Guess:
        """At most `n` tokens after `ids`, drawn as the ticket's request wants it."""
        ...


class LookUp:
    """Guesses that the text goes on as it did where its last tokens stood before.

    Prompt look-up (Saxena, 2023): for answers that repeat what they are about.
    """

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._known = 0

    def guess(self, ids: Sequence[int], n: int, _ticket: Ticket, /) -> Guess:
        """What stood after the last 3 tokens, or 2, where they stood last; of one text only."""
        for end in range(self._known, len(ids)):
            for length in range(_SHORTEST, min(_LONGEST, end) + 1):
                self._after[tuple(ids[end - length : end])] = end
        self._known = len(ids)
        for length in range(_LONGEST, _SHORTEST - 1, -1):
            begin = self._after.get(tuple(ids[-length:]))
            if begin is not None:
                return Guess(list(ids[begin : begin + n]))
        return Guess([])


class Smaller:
    """A smaller model that guesses: one that has the same tokens, for texts up to `longest`.

    It may have fewer rows than the other for what is no token; a text with such a one is not its.
    """

    def __init__(self, model: Serves, n_tokens: int, longest: int) -> None:
        self.model, self.n_tokens, self.longest = model, n_tokens, longest
        self._device = home(model)
        self._read: list[int] = []
        self._slots: Slots | None = None

    def guess(self, ids: Sequence[int], n: int, ticket: Ticket, /) -> Guess:
        """What it would say itself, as the request says it is to be drawn; of one text only."""
        n = min(n, self.longest - len(ids))
        if n <= 0 or max(ids) >= self.model.n_tokens:
            return Guess([])
        if self._slots is None:
            needed = len(ids) + ticket.request.limit
            self._slots = self.model.slots(1, min(self.longest, needed))
            self._slots.add(1)
        same = 0
        while same < min(len(self._read), len(ids) - 1) and self._read[same] == ids[same]:
            same += 1
        self._slots.rewind(0, same)
        read(self.model, self._slots, ids[same:-1])
        guessed, odds, draw = list[int](), list[Tensor](), ticket.request.draw
        for _ in range(n):
            last = torch.tensor([[guessed[-1] if guessed else ids[-1]]])
            logits = self.model.step(upload(last, self._device), self._slots.part(0, 1))[0]
            scores = self._alike(logits[:, -1].float())
            if draw is None:
                guessed.append(int(scores.argmax()))
            else:
                odds.append(draw.probabilities(scores))
                guessed.append(_pick(odds[-1], ticket.draw()))
        self._read = [*ids, *guessed[:-1]]
        return Guess(guessed, torch.cat(odds) if odds else None)

    def _alike(self, logits: Tensor) -> Tensor:
        """Logits (1, V) of the tokens that the other model has."""
        missing = self.n_tokens - logits.shape[-1]
        return F.pad(logits, (0, missing), value=NEVER) if missing else logits


@dataclass(frozen=True)
class Told:
    """How many tokens were guessed, and how many of them taken."""

    guessed: int
    accepted: int


@torch.inference_mode()
def speculate(model: Serves, request: Request, draft: Draft) -> tuple[Ticket, Told]:
    """Continue one text; `draft` guesses, new for each text.

    As many tokens are guessed at once as seems to pay: two more after guesses that were all right,
    one fewer else. Raises UserError as `Ticket` does.
    """
    device = home(model)
    ticket = Ticket(request, model.n_tokens, device)
    slots = model.slots(1, max(1, request.places))
    slots.add(1)
    read(model, slots, request.ids[:-1])
    ahead, guessed, accepted = _FIRST, 0, 0
    while not ticket.done:
        text = [*request.ids, *ticket.ids]
        left = request.limit - len(ticket.ids)
        guess = draft.guess(text, min(ahead, left - 1), ticket) if left > 1 else Guess([])
        given = torch.tensor([[text[-1], *guess.ids]])
        logits = model.step(upload(given, device), slots.part(0, 1))[0][0].float()  # (1 + n, V)
        right = judge(logits, guess, ticket)
        slots.rewind(0, len(text) + right)
        guessed, accepted = guessed + len(guess.ids), accepted + right
        if guess.ids:
            ahead = min(_MOST, ahead + 2) if right == len(guess.ids) else max(1, ahead - 1)
    return ticket, Told(guessed, accepted)


def judge(logits: Tensor, guess: Guess, ticket: Ticket) -> int:
    """Give the ticket the guesses that the model takes, then a token of its own.

    `logits` (1 + n, V) are the model's for the place of each of the n guesses, and for the one
    after them. Returns how many guesses were taken.
    """
    log_probs = logits.log_softmax(dim=-1)
    taken = 0
    for guessed in (*guess.ids, None):
        row = slice(taken, taken + 1)
        scores = ticket.weakened(logits[row]) if ticket.weakens else log_probs[row]
        odds = guess.odds[row] if guess.odds is not None and guessed is not None else None
        token = _next(scores, guessed, odds, ticket)
        ticket.take(token, float(log_probs[taken, token]))
        taken += token == guessed
        if ticket.done or token != guessed:
            break
    return taken


def _next(scores: Tensor, guessed: int | None, odds: Tensor | None, ticket: Ticket) -> int:
    """The token at one place, from scores (1, V) and the odds (1, V) of the guess.

    A guess is taken with probability min(1, p / q); else the token is drawn from what p has more
    than q, in proportion.
    """
    if ticket.request.draw is None:
        return int(scores.argmax())
    chances = ticket.request.draw.probabilities(scores)
    if guessed is None:
        return _pick(chances, ticket.draw())
    if odds is None:  # it was certain of it
        odds = F.one_hot(torch.tensor([guessed], device=scores.device), scores.shape[-1])
    if ticket.draw() * odds[0, guessed] < chances[0, guessed]:
        return guessed
    left = (chances - odds).clamp_min(0)
    return _pick(left if left.any() else chances, ticket.draw())


def _pick(chances: Tensor, draw: float) -> int:
    return int(pick(chances.log(), torch.tensor([draw], device=chances.device)))


def read(model: Serves, slots: Slots, ids: Sequence[int]) -> None:
    """Read what comes next of the one text there is, in pieces."""
    device = home(model)
    for begin in range(0, len(ids), PIECE):
        piece = torch.tensor([list(ids[begin : begin + PIECE])])
        model.read(upload(piece, device), slots.part(0, 1))
