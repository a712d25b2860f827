"""The tokeniser of a language model or an encoder: prompts in, text out."""

from __future__ import annotations

import itertools
import json
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.tokens.chat import Message, render_chat
from headway.tokens.codec import Codec, blocks, only_unicode
from headway.tokens.spelled import Spelled, guard_of
from headway.tokens.streaming import TextStream

_BLANKS = (" ", "\n", "\t", "\r", "▁")
_BYTE_BLANKS = ("Ġ", "Ċ", "ĉ", "č")  # the first four as GPT-2 writes them


@dataclass(frozen=True)
class Roles:
    """What a model does with its special tokens; ids, or None where it has no such token.

    `adds_bos` begins each prompt with `bos`; any of `ends` is the end of what is generated, and
    `eos` is the one of them that is written: with `closes` also after a text that is read whole.
    """

    bos: int | None = None
    pad: int | None = None
    mask: int | None = None
    ends: frozenset[int] = frozenset()
    adds_bos: bool = False
    closes: bool = False
    template: str | None = None
    eos: int | None = None

    @property
    def end(self) -> int | None:
        """The end symbol that is written after a text."""
        return self.eos if self.eos is not None else min(self.ends, default=None)


class TextTokenizer(Codec):
    """A vocabulary, the rules that cut text into it, and the roles of its special tokens."""

    def __init__(self, made: Backend, roles: Roles, *, where: str = "tokenizer") -> None:
        super().__init__(made)
        self.roles, self.where = roles, where
        self._spelled = Spelled(made, self._ids, self._without_control)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text alone: none that is special but the unknown, no frame around it.

        What spells a special token that the vocabulary has as a word is unknown; it is left out
        where the model has no unknown token. Raises UserError if a text is not valid Unicode.
        """
        return [
            self._without_control(row.ids)
            for block in blocks(texts)
            for row in self._made.encode_batch_fast(block, add_special_tokens=False)
        ]

    def parts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of the parts of one text, between which special tokens are to stand."""
        return [self._spelled.plain(text, begins=not n) for n, text in enumerate(texts)]

    @property
    def unknown(self) -> int | None:
        """The id of what is not in the vocabulary, if there is one."""
        return self._unknown

    @property
    def special(self) -> list[int]:
        """The ids of special tokens, in order."""
        return sorted(self._special)

    def documents(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of whole texts, from the start symbol to the end: what a model is trained on.

        Where prompts have no start symbol, an end stands before the first text too. Raises
        UserError if there is no end symbol.
        """
        end = self.end()
        first = self._first() or [end]
        return [[*first, *ids, end] for ids in self.encode(texts)]

    def end(self) -> int:
        """The end symbol that is written after a text. Raises UserError if there is none."""
        if self.roles.end is None:
            raise UserError(
                "this tokeniser has no end symbol, so that a model could not learn to stop",
                where=self.where,
                todo="name one as eos_token in its tokenizer_config.json",
            )
        return self.roles.end

    def opening(self) -> int:
        """What stands before the first token where there is nothing else: the start, or an end.

        Raises UserError if the tokeniser has neither.
        """
        opening = self.roles.bos if self.roles.bos is not None else self.roles.end
        if opening is None:
            raise UserError(
                "there is nothing to read, and the tokeniser has no start symbol",
                where="prompt",
                todo="write the beginning of a text",
            )
        return opening

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts that a model is to continue, `bos` before them where it wants that.

        A warning tells of a text that spells it at its beginning: there it is text like any other.
        """
        bos = "" if self.roles.bos is None else self.token(self.roles.bos)
        if bos and any(text.startswith(bos) for text in texts):
            own = "one stands before it" if self._first() else "prompts of this model have none"
            what = f"a prompt begins with {bos!r}, which is read as text, not as the start symbol"
            warnings.warn(f"{what}: {own}", stacklevel=2)
        return [self._first() + ids for ids in self.encode(texts)]

    def whole(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts that a language model is to read, not to continue."""
        last = [self.end()] if self.roles.closes else []
        return [ids + last for ids in self.prompts(texts)]

    def framed(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        longest: int | None = None,
    ) -> list[tuple[list[int], list[int]]]:
        """Ids and segments of each text, or pair of texts, in the frame that the file gives them.

        BERT's is [CLS] text [SEP], then the second and [SEP] of segment 1. Of what has more than
        `longest` ids the longer text is cut at its end. Raises UserError if the frame alone does.
        """
        n_frame = self._made.num_special_tokens_to_add(seconds is not None)
        if longest is not None and longest < n_frame:  # which the library would not cut at all
            raise UserError(
                f"rows of at most {longest} ids cannot hold the {n_frame} of an empty text's frame",
                where=self.where,
                todo=f"let rows have {n_frame + 1} ids or more",
            )
        texts = list(only_unicode(texts))
        given = texts if seconds is None else list(zip(texts, only_unicode(seconds), strict=True))
        if longest is not None:
            self._made.enable_truncation(longest, strategy="longest_first")
        try:
            rows = self._made.encode_batch(given, add_special_tokens=True)
        finally:
            self._made.no_truncation()
        return [self._in_frame(row) for row in rows]

    def shown(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens written out."""
        return self._made.decode(list(ids), skip_special_tokens=False)

    def begin_words(self) -> list[bool]:
        """Whether each id begins a word wherever it stands.

        In WordPiece all but continuations do, in other vocabularies of pieces what begins with a
        blank, in one of words all.
        """
        model = json.loads(self.to_json())["model"]
        if model["type"] == "WordPiece":
            continues = model["continuing_subword_prefix"]
            return [not token.startswith(continues) for token in self._tokens()]
        if model["type"] == "WordLevel":
            return [True] * len(self)
        return [token.startswith(self._blanks()) for token in self._tokens()]

    def joins_blanks(self) -> bool:
        """Whether the blank before a word is part of the word's first token."""
        blanks = self._blanks()
        return any(token.startswith(blanks) and len(token) > 1 for token in self._tokens())

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation up to where the assistant is to answer.

        Raises UserError if the tokeniser has no chat template, or that refuses the messages.
        """
        guard = guard_of(messages, self._ids)
        ids = self._spelled.parse(self._rendered(messages, guard), guard)
        return ids if self._begins(ids) else self._first() + ids

    def turns(self, messages: Sequence[Message]) -> list[tuple[list[int], bool]]:
        """The ids of a conversation in pieces, and of each whether the assistant is to say it.

        What the assistant says ends with the first end symbol that the template writes after it,
        if it writes one. Raises UserError as `chat` does, and if the template does not write the
        beginning of a conversation as it writes the whole.
        """
        guard = guard_of(messages, self._ids)
        pieces: list[tuple[list[int], bool]] = []
        done = ""
        for number, message in enumerate(messages):
            if message.get("role") != "assistant":
                continue
            asked = self._rendered(messages[:number], guard)
            told = self._rendered(messages[: number + 1], guard, answer=False)
            if not (asked.startswith(done) and told.startswith(asked)):
                raise UserError(
                    "the chat template does not write the beginning of a conversation as it writes "
                    "the whole, so that no answer can be told from its prompt",
                    where=self.where,
                    todo="give prompts and answers with data.chat = false",
                )
            prompt = self._spelled.parse(asked[len(done) :], guard, begins=not done)
            pieces.append((prompt, False))
            said = self._spelled.parse(told[len(asked) :], guard, begins=not asked)
            end = next((n for n, id in enumerate(said, 1) if id in self.roles.ends), len(said))
            pieces += [(said[:end], True), (said[end:], False)]
            done = told
        if pieces and not self._begins(pieces[0][0]):
            pieces.insert(0, (self._first(), False))
        return pieces

    def stream(self, after: int) -> TextStream:
        """A function from the next id to the text that it completes: nothing while a letter of
        several tokens is not whole. `after` is the id before the first.
        """
        return TextStream(self._made, self._context(after))

    def continuation(self, ids: Sequence[int], after: int) -> str:
        """The text of ids that stand behind the id `after`."""
        context = self._context(after)
        before, whole = self.decode([context, [*context, *ids]])
        return whole[len(before) :]

    def _in_frame(self, row: Encoding) -> tuple[list[int], list[int]]:
        """Ids and segments of a framed text, with no control token but those of the frame."""
        ids, segments, of_frame = row.ids, row.type_ids, row.special_tokens_mask
        if self._control.isdisjoint(itertools.compress(ids, map(operator.not_, of_frame))):
            return ids, segments
        kept = [
            ([id] if frames else self._without_control([id]), segment)
            for id, segment, frames in zip(ids, segments, of_frame, strict=True)
        ]
        return [id for some, _ in kept for id in some], [each for some, each in kept if some]

    def _context(self, after: int) -> list[int]:
        """What is to be decoded before a continuation, since some decoders drop a first blank."""
        (text,) = self.decode([[after]])
        return [] if not text or text.endswith("\ufffd") else [after]  # half a letter is none

    def _rendered(self, messages: Sequence[Message], guard: str, *, answer: bool = True) -> str:
        """What the chat template makes of messages. Raises UserError if there is none."""
        if self.roles.template is None:
            raise UserError(
                "this tokeniser has no chat template",
                where=self.where,
                todo="give a plain prompt, or use a model that was trained to chat",
            )
        kept = [dict(self._spelled.guarded(message, guard)) for message in messages]
        specials, where = self._names(), self.where
        template = self.roles.template
        return render_chat(template, kept, specials=specials, where=where, answer=answer)

    def _tokens(self) -> list[str]:
        """The token of each id; ids of a file from elsewhere may have gaps, which are empty."""
        return [self._made.id_to_token(id) or "" for id in range(len(self))]

    def _blanks(self) -> tuple[str, ...]:
        return _BYTE_BLANKS if self._byte_level else _BLANKS

    def _first(self) -> list[int]:
        return [self.roles.bos] if self.roles.adds_bos and self.roles.bos is not None else []

    def _begins(self, ids: Sequence[int]) -> bool:
        """Whether the start symbol is there already, or not wanted: it must not come twice."""
        return not self._first() or list(ids[:1]) == self._first()

    def _names(self) -> dict[str, str]:
        """What templates call the special tokens."""
        ids = {"bos_token": self.roles.bos, "pad_token": self.roles.pad}
        ids["eos_token"] = self.roles.end
        named = {name: self._made.id_to_token(id) for name, id in ids.items() if id is not None}
        return {name: token for name, token in named.items() if token is not None}
