"""A cache for texts of unlike lengths that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headway.nn.attention import KeyValue
from headway.nn.stack import step_positions
from headway.nn.visibility import Visibility, causal

_WIPED = 64  # places at a time


class Slots:
    """What a stack remembers of some texts, at most `rows` of at most `places` tokens.

    Each has a row of its own from place 0 on, so that a place is a position, and to forget the end
    of a text is to change a number. Unlike `Cache` it is no value: it changes in place, so that no
    text's keys are copied because another one comes.
    """

    def __init__(self, n_layers: int, rows: int, places: int) -> None:
        self.rows, self.places = rows, places
        self.lengths: list[int] = []
        # keys and values of each layer (rows, G, places, ·), from when it is first written
        self._rooms: list[list[Tensor]] = [[] for _ in range(n_layers)]
        self._wiped = 0  # so many places of each text's row are finite, whatever stood there

    def add(self, n: int) -> None:
        """`n` more texts, of which nothing was read yet. Raises ValueError without room."""
        begin, end = len(self.lengths), len(self.lengths) + n
        if end > self.rows:
            raise ValueError(f"{end} texts, but room for {self.rows}")
        self.lengths += [0] * n
        self._wipe(slice(begin, end), slice(0, self._wiped))

    def move(self, source: int, target: int) -> None:
        """The text of row `source` takes the place of that of row `target`."""
        self.lengths[target] = self.lengths[source]
        for room in self._rooms:
            for part in room:
                part[target, :, : self._wiped] = part[source, :, : self._wiped]

    def drop(self) -> None:
        """The text of the last row goes."""
        self.lengths.pop()

    def rewind(self, row: int, length: int) -> None:
        """Of that text only so many tokens were read. Raises ValueError if it has fewer."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot go back from {self.lengths[row]} tokens to {length}")
        self.lengths[row] = length

    def resize(self, rows: int, places: int) -> None:
        """Room for other numbers. Raises ValueError if what is there does not fit."""
        N, S = len(self.lengths), max(self.lengths, default=0)
        if rows < N or places < S:
            raise ValueError(f"{N} texts of up to {S} tokens do not fit in {rows} of {places}")
        for room in self._rooms:
            for place, part in enumerate(room):
                room[place] = part.new_empty(rows, part.shape[1], places, part.shape[3])
                room[place][:N, :, :S] = part[:N, :, :S]
        self.rows, self.places, self._wiped = rows, places, S

    def part(self, begin: int, end: int) -> Part:
        """The texts of these rows, for a model to go on with."""
        return Part(self, begin, end)

    def room(self, layer: int, like: KeyValue) -> list[Tensor]:
        """Keys and values of a layer, (rows, G, places, ·) each, `like` those to be written."""
        room = self._rooms[layer]
        if not room:
            room += [
                part.new_empty(self.rows, part.shape[1], self.places, part.shape[3])
                for part in like[:2]
            ]
            for part in room:
                part[: len(self.lengths), :, : self._wiped] = 0
        return room

    def _reach(self, S: int) -> None:
        """The first `S` places are going to be looked at. Raises ValueError if there are fewer.

        What is hidden weighs 0, but 0 times what is no number is none.
        """
        if self.places < S:
            raise ValueError(f"{S} tokens, but room for {self.places}")
        if self._wiped < S:
            begin, self._wiped = self._wiped, min(S + _WIPED, self.places)
            self._wipe(slice(0, len(self.lengths)), slice(begin, self._wiped))

    def _wipe(self, rows: slice, places: slice) -> None:
        for room in self._rooms:
            for part in room:
                part[rows, :, places] = 0


class Ahead(NamedTuple):
    """T more tokens of N texts: at which positions, what they see, what is remembered before."""

    positions: Tensor
    visibility: Visibility
    layers: Sequence[Layer]


class Layer(NamedTuple):
    """One layer of some texts, with the places that their next tokens are for."""

    slots: Slots
    number: int
    rows: slice
    next: tuple[Tensor | slice, Tensor | slice]
    length: int

    def append(self, new: KeyValue) -> KeyValue:
        """Write the new ones at their places; all that is there, up to the longest text's end."""
        rooms = self.slots.room(self.number, new)
        for room, part in zip(rooms, new[:2], strict=True):
            room.transpose(1, 2)[self.next] = part.transpose(1, 2)
        key, value = (room[self.rows, :, : self.length] for room in rooms)
        return KeyValue(key, value)


class Part(NamedTuple):
    """Some of the texts of a cache, the rows from `begin` to `end`."""

    slots: Slots
    begin: int
    end: int

    def ahead(self, T: int, device: torch.device) -> Ahead:
        """Where the next T tokens of each go. Raises ValueError without room."""
        rows = slice(self.begin, self.end)
        lengths = self.slots.lengths[rows]
        S = max(lengths) + T
        self.slots._reach(S)
        positions = step_positions(S - T, T, device)  # (T,)
        places: tuple[Tensor | slice, Tensor | slice] = (rows, slice(S - T, S))
        visibility = causal()
        if min(lengths) + T < S:
            begins = torch.tensor(lengths)[:, None]  # (N, 1)
            positions = (begins + torch.arange(T)).to(device, non_blocking=True)  # (N, T)
            places = (step_positions(self.begin, len(lengths), device)[:, None], positions)
            visibility = causal(positions)
        n_layers = len(self.slots._rooms)
        layers = [Layer(self.slots, layer, rows, places, S) for layer in range(n_layers)]
        return Ahead(positions, visibility, layers)

    def after(self, T: int) -> Part:
        """T more tokens of each were read."""
        for row in range(self.begin, self.end):
            self.slots.lengths[row] += T
        return self
