"""Text to ids and back, around a file that the `tokenizers` library loads as it is."""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import decoders

from headway.base.errors import UserError
from headway.tokens.kinds import BOS, EOS, PAD, UNK
from headway.tokens.lossless import losses
from headway.tokens.specials import NAMES, find_specials

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer", "check_fits", "only_unicode", "open_backend"]

_BLOCK = 4096  # texts at a time: the library keeps some 100 bytes a token beside the ids


class Tokenizer:
    """A vocabulary and the rules that cut text into it.

    Ordinary text never becomes a special token other than `unk`, whatever it spells. `lossless`
    says whether `decode(encode(x)) == x` for every `x` by construction, `losses` why not.
    """

    pad: int
    unk: int
    bos: int
    eos: int
    losses: tuple[str, ...]

    def __init__(self, made: Backend, *, where: str = "tokenizer") -> None:
        """Take over `made`; UserError naming `where` if specials or the framing are missing."""
        # The switch is not kept in the file, so it is set here, on every way in.
        made.encode_special_tokens = True
        file = json.loads(made.to_str())
        roles = find_specials(file)
        lacking = [names[0] for role, names in NAMES.items() if role not in roles]
        if lacking:
            raise UserError(
                f"the tokeniser has no special token {lacking[0]}",
                where=where,
                todo="name the file as tokenizer.file of a recipe: what it lacks is added there",
            )
        ids = {added["content"]: added["id"] for added in file["added_tokens"] if added["special"]}
        self.pad, self.unk, self.bos, self.eos = (ids[roles[role]] for role in NAMES)
        self._special = frozenset(ids.values())
        self._control = self._special - {self.unk}
        empty = made.encode("").ids
        if empty[-1:] != [self.eos] or not self._control.isdisjoint(empty[:-1]):
            raise UserError(
                f"the tokeniser does not end each text with {roles['eos']}",
                where=where,
                todo="name the file as tokenizer.file of a recipe: it is made to fit there",
            )
        self._made = made
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

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with `eos`; no other special id but `unk` comes out.

        UserError if a text is not valid Unicode (half of a surrogate pair).
        """
        ids: list[list[int]] = []
        for block in _blocks(texts):
            ids += [self._without_control(row.ids) for row in self._made.encode_batch_fast(block)]
        return ids

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row; special ids are dropped, text that looks like them stays."""
        return self._made.decode_batch([list(row) for row in rows], skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A short readable text for each id, for tables and alignment pictures.

        A space shows as "▁", other blanks (no-break spaces) as "␣", what else cannot be seen and
        half characters as escapes. ValueError if an id is not in the vocabulary.
        """
        return [self._piece(id) for id in ids]

    def ordinary(self) -> list[int]:
        """The ids that text can have, in order: all but those of special tokens."""
        return sorted({*self._made.get_vocab(with_added_tokens=True).values()} - self._special)

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The characters of each text that each of its ids stands for: first, one after the last.

        A special id stands for none, (0, 0). A blank may belong to the word after it.
        """
        rows = (self._made.encode_batch(block) for block in _blocks(texts))
        return [row.offsets for block in rows for row in block]

    def to_json(self) -> str:
        """The content of tokenizer.json; the same tokeniser gives the same bytes."""
        return self._made.to_str()

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Tokenizer:
        """Read the content of a tokenizer.json; UserError naming `where` if it cannot serve."""
        made = open_backend(text, where=where, todo="copy the file again, or train again")
        return cls(made, where=where)

    def cut(self, texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
        """For each text its ids without `eos`, and what the unknown ones among them were in it.

        WordPiece loses a whole word for one unknown letter or for its length; the list then has
        the word.
        """
        lost = self._control | {self.unk}
        for block in _blocks(texts):
            for text, row in zip(
                block, self._made.encode_batch(block, add_special_tokens=False), strict=True
            ):
                unknown = [
                    text[first:last].removeprefix(" ") or " "
                    for id, (first, last) in zip(row.ids, row.offsets, strict=True)
                    if id in lost
                ]
                yield [self.unk if id in self._control else id for id in row.ids], unknown

    def unknowns(self, texts: Iterable[str]) -> tuple[float, Counter[str]]:
        """The share of tokens (without `eos`) that are unknown, and what they were in the text.

        The share is from 0 to 1, and 0 if there are no tokens.
        """
        total, found = 0, Counter[str]()
        for ids, unknown in self.cut(texts):
            total += len(ids)
            found.update(unknown)
        return (found.total() / total if total else 0.0), found

    def _without_control(self, ids: list[int]) -> list[int]:
        """`ids` of a text and its end; what the text alone made a control token is unknown.

        The rules of our own kinds never do that, those of a file from elsewhere may.
        """
        if self._control.isdisjoint(ids[:-1]):
            return ids
        return [self.unk if id in self._control else id for id in ids[:-1]] + ids[-1:]

    def _piece(self, id: int) -> str:
        token = self._made.id_to_token(id)
        if token is None and 0 <= id < len(self):
            return f"<{id}>"  # ids of a file from elsewhere may have gaps
        if token is None:
            raise ValueError(f"id {id} is not among the {len(self)} of this tokeniser")
        if self._byte_level and id not in self._special and _BYTES.keys() >= set(token):
            token = bytes(_BYTES[letter] for letter in token).decode(errors="backslashreplace")
        return "".join(map(_shown, token))


def open_backend(text: str, *, where: str, todo: str) -> Backend:
    """The library's object for a tokenizer.json; UserError naming `where` if it takes none."""
    try:
        return Backend.from_str(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the library raises bare Exception, and less when it panics
        what = f"not a tokeniser that can be read ({error})"
        raise UserError(what, where=where, todo=todo) from error


def check_fits(tokenizer: Tokenizer, n_rows: int, where: str) -> None:
    """UserError if `tokenizer` has an id beyond an embedding of `n_rows` rows.

    Called where a tokeniser meets a model, so that the mistake is not an index error in a kernel.
    """
    if len(tokenizer) > n_rows:
        raise UserError(
            f"the tokeniser has {len(tokenizer)} ids, the model's embedding only {n_rows} rows:"
            f" '{tokenizer.pieces([n_rows])[0]}' (id {n_rows}) has no row",
            where=where,
            todo="use the tokeniser that the model was trained with",
        )


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


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
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
