"""What a translator asks of the tokeniser of its source or of its target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class SideTokenizer(Protocol):
    """The tokeniser of one side; `Tokenizer` is one, and so is `SentencePieces`."""

    pad: int
    unk: int
    bos: int
    eos: int

    def __len__(self) -> int:
        """How many ids there are."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with `eos`."""

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row, without special tokens."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A short readable text for each id."""

    def tokens(self) -> list[str | None]:
        """The token of each id, as files spell it."""

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The characters of each text that each of its ids stands for."""

    def cut(self, texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
        """For each text its ids without `eos`, and what the unknown ones were in it."""


@dataclass(frozen=True)
class Sides:
    """The source's and the target's tokeniser; the same object where they are one."""

    source: SideTokenizer
    target: SideTokenizer
