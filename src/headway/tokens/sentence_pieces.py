"""SentencePiece's cutting with the ids of another list, as Marian's folders have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from headway.base.errors import UserError
from headway.base.optional import optional
from headway.tokens.codec import only_unicode

_CODE = (">>", "<<")  # around the name of a language before a text


class SentencePieces:
    """Text becomes the pieces of a SentencePiece model, and `vocabulary` numbers them.

    A piece that the vocabulary lacks is unknown, and no text becomes a special token. A text may
    begin with a language such as >>fra<<, which is one token. As MarianTokenizer of transformers,
    without the punctuation that sacremoses would change before.
    """

    def __init__(
        self,
        model: bytes,
        vocabulary: Mapping[str, int],
        *,
        pad: int,
        unk: int,
        bos: int,
        eos: int,
        where: str,
    ) -> None:
        """`model` is the content of a .spm file. Raises UserError naming `where` if it is none."""
        library = optional("sentencepiece", extra="export", where=where)
        self._model: Any = library.SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise UserError("not a SentencePiece model", where=where) from error
        self.pad, self.unk, self.bos, self.eos = pad, unk, bos, eos
        self._ids = dict(vocabulary)
        self._tokens = {id: token for token, id in self._ids.items()}
        self._control = {pad, bos, eos}

    def __len__(self) -> int:
        """How many ids there are."""
        return 1 + max(self._tokens, default=-1)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with `eos`. Raises UserError for what is not Unicode."""
        return [[*(id for id, _ in self._cut(text)), self.eos] for text in only_unicode(texts)]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row; special ids are dropped."""
        dropped = self._control | {self.unk}
        texts = []
        for row in rows:
            pieces = [self._tokens.get(id, "") for id in row if id not in dropped]
            texts.append(str(self._model.decode_pieces(pieces)).replace("▁", " ").strip())
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A short readable text for each id: a space shows as "▁"."""
        return [self._tokens.get(id, f"<{id}>") for id in ids]

    def tokens(self) -> list[str | None]:
        """The token of each id, as files spell it; None for an id that is no token's."""
        return [self._tokens.get(id) for id in range(len(self))]

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The characters of each text that each of its ids stands for; those of `eos`: none."""
        return [[*(span for _, span in self._cut(text)), (0, 0)] for text in only_unicode(texts)]

    def cut(self, texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
        """For each text its ids without `eos`, and what the unknown ones were in it."""
        for text in only_unicode(texts):
            found = self._cut(text)
            unknown = [
                text[begin:end].strip() or " " for id, (begin, end) in found if id == self.unk
            ]
            yield [id for id, _ in found], unknown

    def _cut(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """The ids of a text, each with its first character and the one after its last."""
        found, before = [], 0
        if text.startswith(_CODE[0]) and _CODE[1] in text:
            before = text.find(_CODE[1]) + len(_CODE[1])
            found = [(self._id(text[:before]), (0, before))]
        letters = text[before:].encode()

        def place(byte: int) -> int:
            return before + len(letters[:byte].decode())

        for piece in self._model.encode(letters.decode(), return_type="proto").pieces:
            found.append((self._id(piece.piece), (place(piece.begin), place(piece.end))))
        return found

    def _id(self, piece: str) -> int:
        id = self._ids.get(piece, self.unk)
        return self.unk if id in self._control else id
