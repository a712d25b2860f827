"""What every vocabulary answers: decoding, readable pieces, the characters behind each id."""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import decoders

from headway.base.errors import UserError
from headway.tokens.lossless import losses
from headway.tokens.specials import unknown_token

_BLOCK = 4096  # texts at a time: the library keeps some 100 bytes a token beside the ids


class Codec:
    """A `tokenizers.Tokenizer` that never takes ordinary text for a special token."""

    losses: tuple[str, ...]

    def __init__(self, made: Backend) -> None:
        # The switch is not kept in the file, so it is set here, on every way in.
        made.encode_special_tokens = True
        file = json.loads(made.to_str())
        self._made = made
        self._ids = {
            added["content"]: added["id"] for added in file["added_tokens"] if added["special"]
        }
        self._special = frozenset(self._ids.values())
        unknown = unknown_token(file)
        self._unknown = None if unknown is None else made.token_to_id(unknown)
        self._control = self._special - {self._unknown}
        self._size = 1 + max(made.get_vocab(with_added_tokens=True).values())
        self._byte_level = isinstance(made.decoder, decoders.ByteLevel)
        self.losses = losses(file)

    def __len__(self) -> int:
        """How many ids there are, special tokens included: the rows that an embedding needs."""
        return self._size

    @property
    def lossless(self) -> bool:
        """Whether decoding gives back every text that was encoded."""
        return not self.losses

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row; special ids are dropped, text that looks like them stays."""
        return self._made.decode_batch([list(row) for row in rows], skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A short readable text for each id, for tables and alignment pictures.

        A space shows as "▁", other blanks (no-break spaces) as "␣", what else cannot be seen and
        half characters as escapes. ValueError if an id is not in the vocabulary.
        """
        return [self._piece(id) for id in ids]

    def token(self, id: int) -> str:
        """The token of an id as the file has it. ValueError if there is none."""
        token = self._made.id_to_token(id)
        if token is None:
            raise ValueError(f"id {id} is not among the {len(self)} of this tokeniser")
        return token

    def tokens(self) -> list[str | None]:
        """The token of each id, as files spell it; None for an id that is no token's."""
        return [self._made.id_to_token(id) for id in range(len(self))]

    def ordinary(self) -> list[int]:
        """The ids that text can have, in order: all but those of special tokens."""
        return sorted({*self._made.get_vocab(with_added_tokens=True).values()} - self._special)

    def is_special(self, id: int) -> bool:
        """Whether an id is of a special token, which no text can have."""
        return id in self._special

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The characters of each text that each of its ids stands for: first, one after the last.

        A special id stands for none, (0, 0). A blank may belong to the word after it.
        """
        rows = (self._made.encode_batch(block) for block in blocks(texts))
        return [row.offsets for block in rows for row in block]

    def cut(self, texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
        """For each text its ids, none of a frame, and what in it was unknown.

        What spells a control token is unknown too. WordPiece loses a whole word for one unknown
        letter or for its length; the list then has the word.
        """
        lost = self._control | {self._unknown}
        for block in blocks(texts):
            for text, row in zip(
                block, self._made.encode_batch(block, add_special_tokens=False), strict=True
            ):
                yield (
                    self._without_control(row.ids),
                    [
                        text[first:last].removeprefix(" ") or " "
                        for id, (first, last) in zip(row.ids, row.offsets, strict=True)
                        if id in lost
                    ],
                )

    def _without_control(self, ids: list[int]) -> list[int]:
        """`ids` of text alone: what it made a control token is unknown.

        A vocabulary that holds its special tokens as whole words or pieces would let a text say
        them. Where the model has no unknown token they are left out, as it leaves out letters that
        it does not know: refused, one line of many would stop a training.
        """
        if self._control.isdisjoint(ids):
            return ids
        known = (self._unknown if id in self._control else id for id in ids)
        return [id for id in known if id is not None]

    def to_json(self) -> str:
        """The content of tokenizer.json; the same tokeniser gives the same bytes."""
        return self._made.to_str()

    def _piece(self, id: int) -> str:
        token = self._made.id_to_token(id)
        if token is None and 0 <= id < len(self):
            return f"<{id}>"  # ids of a file from elsewhere may have gaps
        if token is None:
            raise ValueError(f"id {id} is not among the {len(self)} of this tokeniser")
        if self._byte_level and id not in self._special and _BYTES.keys() >= set(token):
            token = bytes(_BYTES[letter] for letter in token).decode(errors="backslashreplace")
        return "".join(map(_shown, token))


def _shown(letter: str) -> str:
    if unicodedata.category(letter) == "Zs":
        return "▁" if letter == " " else "␣"
    return letter if letter.isprintable() else ascii(letter)[1:-1]


def only_unicode(texts: Iterable[str]) -> Iterator[str]:
    """`texts` as they come; UserError with its number at one that UTF-8 cannot hold.

    Python strings can carry half of a surrogate pair, from a command line for instance.
    """
    for number, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"text {number} is not valid Unicode ({error.reason})",
                todo="decode the input as UTF-8",
            ) from error
        yield text


def blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, some thousand at a time; UserError for one that is not Unicode."""
    rest = only_unicode(texts)
    while block := list(itertools.islice(rest, _BLOCK)):
        yield block


def _byte_letters() -> dict[str, int]:
    # GPT-2's table (Radford et al. 2019): visible Latin-1 stands for itself, the rest moves up.
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {
        chr(256 + place): byte for place, byte in enumerate(moved)
    }


_BYTES = _byte_letters()
