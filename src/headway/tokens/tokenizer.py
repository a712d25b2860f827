"""Text to ids and back, around a file that the `tokenizers` library loads as it is."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.tokens.codec import Codec, blocks, only_unicode
from headway.tokens.kinds import BOS, EOS, PAD, UNK
from headway.tokens.sides import SideTokenizer
from headway.tokens.specials import NAMES, find_specials

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer", "check_fits", "only_unicode", "open_backend"]

# Files from elsewhere may have gaps in their ids, but no more than some rows for each token
_MOST_GAPS, _LEAST_FAR = 8, 1 << 20
_FAR_ID = re.compile(r'"\s*:\s*(?:-|\d{7})')  # any that could be beyond 2^20, or below 0


class Tokenizer(Codec):
    """A vocabulary and the rules that cut text into it.

    Ordinary text never becomes a special token other than `unk`, whatever it spells. `lossless`
    says whether `decode(encode(x)) == x` for every `x` by construction, `losses` why not.
    """

    pad: int
    unk: int
    bos: int
    eos: int

    def __init__(self, made: Backend, *, where: str = "tokenizer") -> None:
        """Take over `made`; UserError naming `where` if specials or the framing are missing."""
        super().__init__(made)
        roles = find_specials(json.loads(made.to_str()))
        lacking = [names[0] for role, names in NAMES.items() if role not in roles]
        if lacking:
            raise UserError(
                f"the tokeniser has no special token {lacking[0]}",
                where=where,
                todo="name the file as tokenizer.file of a recipe: what it lacks is added there",
            )
        self.pad, self.unk, self.bos, self.eos = (self._ids[roles[role]] for role in NAMES)
        self._unknown = self.unk
        self._control = self._special - {self.unk}
        empty = made.encode("").ids
        if empty[-1:] != [self.eos] or not self._control.isdisjoint(empty[:-1]):
            raise UserError(
                f"the tokeniser does not end each text with {roles['eos']}",
                where=where,
                todo="name the file as tokenizer.file of a recipe: it is made to fit there",
            )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with `eos`; no other special id but `unk` comes out.

        UserError if a text is not valid Unicode (half of a surrogate pair).
        """
        ids: list[list[int]] = []
        for block in blocks(texts):
            rows = (row.ids for row in self._made.encode_batch_fast(block))
            ids += [[*self._without_control(row[:-1]), *row[-1:]] for row in rows]
        return ids

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Tokenizer:
        """Read the content of a tokenizer.json; UserError naming `where` if it cannot serve."""
        made = open_backend(text, where=where, todo="copy the file again, or train again")
        return cls(made, where=where)

    def unknowns(self, texts: Iterable[str]) -> tuple[float, Counter[str]]:
        """The share of tokens (without `eos`) that are unknown, and what they were in the text.

        The share is from 0 to 1, and 0 if there are no tokens.
        """
        total, found = 0, Counter[str]()
        for ids, unknown in self.cut(texts):
            total += len(ids)
            found.update(unknown)
        return (found.total() / total if total else 0.0), found


def open_backend(text: str, *, where: str, todo: str) -> Backend:
    """The library's object for a tokenizer.json; UserError naming `where` if it takes none."""
    _refuse_far_ids(text, where)
    try:
        return Backend.from_str(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the library raises bare Exception, and less when it panics
        what = f"not a tokeniser that can be read ({error})"
        raise UserError(what, where=where, todo=todo) from error


def _refuse_far_ids(text: str, where: str) -> None:
    """UserError for an id far beyond the number of tokens, or below 0.

    The library walks all ids up to the greatest, and the process ends where memory does.
    """
    if _FAR_ID.search(text) is None:  # spares most files from being read twice
        return
    try:
        file = json.loads(text)
    except (ValueError, RecursionError):
        return  # the library says what is wrong
    model, added = file.get("model"), file.get("added_tokens")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    ids = list(vocab.items()) if isinstance(vocab, dict) else []  # in Unigram places are ids
    n_tokens = len(vocab) if isinstance(vocab, dict | list) else 0
    if isinstance(added, list):
        tables = [each for each in added if isinstance(each, dict)]
        ids += [(each.get("content"), each.get("id")) for each in tables]
        n_tokens += len(tables)
    most = _MOST_GAPS * n_tokens + _LEAST_FAR
    for token, id in ids:
        if isinstance(id, int) and not 0 <= id <= most:
            what = f"the id {id} of the token {token!r} is no id of {n_tokens:,} tokens"
            raise UserError(what, where=where, todo="correct it, or copy the file again")


def check_fits(tokenizer: SideTokenizer | Codec, n_rows: int, where: str) -> None:
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


def check_same_tokens(tokenizer: Codec, draft: Codec) -> None:
    """UserError unless the ids of a draft mean the same tokens: it guesses ids."""
    ours, theirs = tokenizer.tokens(), draft.tokens()
    if ours == theirs:
        return
    n = next(
        (n for n, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), None
    )
    differs = f"{len(theirs):,} ids, not {len(ours):,}"
    if n is not None:
        differs = f"id {n} is {theirs[n]!r}, not {ours[n]!r}"
    raise UserError(
        f"the draft has another vocabulary than the model: {differs}",
        where="draft",
        todo="name a smaller model of the same family, or lookup",
    )
