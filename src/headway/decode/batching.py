"""Continuous batching: requests join and leave a batch that goes on running.

Orca (Yu et al., 2022, section 3) calls it scheduling by iteration. A request that comes is read in
pieces, so that those who are being answered wait for a piece and no longer (Agrawal et al., 2023,
arXiv 2308.16369); one that is done makes room at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.decode.request import Request, Ticket, check_places
from headway.decode.steps import PIECE, Serves, Slots, fetched, home, upload

_SHORT = 128  # tokens of prompts that are read at once while others wait for their next token
ROUND = 64  # places, of which there is a multiple if memory allows


class Batcher:
    """Continues requests together that come at any time; each as if it were alone.

    `memory` is how many tokens the cache has room for at the most, free places among them: a
    request waits until its prompt and all that it may say have room beside the others', first come,
    first served. `submit`, and a ticket's `cancel`, may be called from any thread, `step` and `run`
    from one. Raises UserError for no memory.
    """

    def __init__(self, model: Serves, *, memory: int) -> None:
        if memory < 1:
            raise UserError(f"{memory} tokens of memory", where="memory", todo="1 or more")
        self.model, self.memory = model, memory
        self._device = home(model)
        self._waiting: deque[Ticket] = deque()
        self._slots: Slots | None = None
        self._rows: list[Ticket] = []  # whose text is in each row: first those being answered,
        self._answered = 0  # so many, and then those being read

    def submit(self, request: Request) -> Ticket:
        """Put a request in the queue. Raises UserError if it can never fit, or is out of range."""
        check_places(request, self.memory)
        ticket = Ticket(request, self.model.n_tokens, self._device)
        if not ticket.done:
            self._waiting.append(ticket)
        return ticket

    @property
    def held(self) -> int:
        """How many tokens the cache has room for now: at most `memory`."""
        return self._slots.rows * self._slots.places if self._slots else 0

    def run(self) -> None:
        """Go on until all that was submitted is done."""
        while self.step():
            pass

    @torch.inference_mode()
    def step(self) -> bool:
        """Read a piece of what has come, then one token more for each that was read before.

        True while there is something left to do.
        """
        self._leave()
        if self._answered == len(self._rows):
            self._admit()
        if self._answered < len(self._rows):
            self._read()
        if self._answered:
            self._write()
            self._leave()
        return bool(self._rows or self._waiting)

    def _admit(self) -> None:
        """Rows for those that have waited longest, as many as fit and are read in one piece."""
        new: list[Ticket] = []
        while self._waiting:
            ticket = self._waiting[0]
            longest = max(len(each.request.ids) for each in (*new, ticket))
            if not ticket.done:
                whole = not new or longest * (len(new) + 1) <= self._piece
                if not whole or not self._has_room(len(self._rows) + len(new) + 1, ticket, *new):
                    break
                new.append(ticket)
            self._waiting.popleft()
        if new:
            self._make_room([*self._rows, *new]).add(len(new))
            self._rows += new

    @property
    def _piece(self) -> int:
        return _SHORT if self._answered else PIECE

    def _has_room(self, n: int, *new: Ticket) -> bool:
        return n * _most_places((*self._rows, *new)) <= self.memory

    def _make_room(self, tickets: Sequence[Ticket]) -> Slots:
        """Slots that have room for all these, and for as many more as fit in the memory."""
        needed, most = _most_places(tickets), self.memory // len(tickets)
        places = min(-(-needed // ROUND) * ROUND, most)
        rows = self.memory // places
        if self._slots is None:
            self._slots = self.model.slots(rows, places)
        elif self._slots.places < needed or self._slots.rows < len(tickets):
            self._slots.resize(rows, places)
        return self._slots

    def _read(self) -> None:
        """A piece of the newcomers' prompts, but for the last token of each; padding comes after.

        What was read of padding is forgotten at the end.
        """
        assert self._slots is not None
        new = [ticket.request.ids[:-1] for ticket in self._rows[self._answered :]]
        begin, longest = self._slots.lengths[-1], max(map(len, new))
        end = min(longest, begin + max(1, self._piece // len(new)))
        if begin < end:
            ids = torch.zeros(len(new), end - begin, dtype=torch.int64)
            for place, row in enumerate(new):
                piece = torch.tensor(row[begin:end], dtype=torch.int64)
                ids[place, : len(piece)] = piece
            part = self._slots.part(self._answered, len(self._rows))
            self.model.read(upload(ids, self._device), part)
        if end == longest:
            for place, row in enumerate(new, start=self._answered):
                self._slots.rewind(place, len(row))
            self._answered = len(self._rows)

    def _write(self) -> None:
        """The next token of each that is being answered."""
        assert self._slots is not None
        tickets = self._rows[: self._answered]
        ids = torch.tensor([[ticket.last] for ticket in tickets])
        part = self._slots.part(0, len(tickets))
        logits = self.model.step(upload(ids, self._device), part)[0][:, -1].float()
        log_probs = logits.log_softmax(dim=-1)  # (N, V)
        chosen = choose(logits, log_probs, tickets)[:, None]  # (N, 1)
        values, tokens = fetched(log_probs.gather(1, chosen), chosen)
        for ticket, value, token in zip(
            tickets, values[:, 0].tolist(), tokens[:, 0].tolist(), strict=True
        ):
            ticket.take(token, value)

    def _leave(self) -> None:
        """Those that are done make room; the last ones take their rows."""
        for row in reversed(range(self._answered)):
            if not self._rows[row].done:
                continue
            assert self._slots is not None
            self._answered -= 1
            for last in (self._answered, len(self._rows) - 1):
                if last != row:
                    self._slots.move(last, row)
                    self._rows[row] = self._rows[last]
                row = last
            self._slots.drop()
            self._rows.pop()


def choose(logits: Tensor, log_probs: Tensor, tickets: Sequence[Ticket]) -> Tensor:
    """Each ticket's next token (N,), from logits and log-probabilities (N, V)."""
    rows: dict[object, list[int]] = {}
    for row, ticket in enumerate(tickets):
        rows.setdefault(ticket.request.draw, []).append(row)
    weakening = [row for row, ticket in enumerate(tickets) if ticket.weakens]
    scores = log_probs.clone() if weakening else log_probs
    for row in weakening:
        scores[row] = tickets[row].weakened(logits[row : row + 1])[0]
    chosen = torch.empty(len(tickets), dtype=torch.int64, device=logits.device)
    for alike in rows.values():
        draw, part = tickets[alike[0]].request.draw, scores
        where = upload(torch.tensor(alike), logits.device)
        if len(alike) < len(tickets):
            part = scores[where]
        if draw is None:
            chosen[where] = part.argmax(dim=-1)
        else:
            draws = torch.tensor([tickets[row].draw() for row in alike])
            chosen[where] = draw.choose(part, upload(draws, logits.device))
    return chosen


def _most_places(tickets: Sequence[Ticket]) -> int:
    return max(ticket.request.places for ticket in tickets)
