"""The tokeniser of a language model or an encoder: prompts in, text out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer as Backend
from tokenizers.decoders import DecodeStream

from headway.base.errors import UserError
from headway.tokens.chat import Message, render_chat
from headway.tokens.codec import Codec, blocks, only_unicode


@dataclass(frozen=True)
class Roles:
    """What a model does with its special tokens; ids, or None where it has no such token.

    `adds_bos` begins each prompt with `bos`; any of `ends` is the end of what is generated.
    """

    bos: int | None = None
    pad: int | None = None
    mask: int | None = None
    ends: frozenset[int] = frozenset()
    adds_bos: bool = False
    template: str | None = None


class TextTokenizer(Codec):
    """A vocabulary, the rules that cut text into it, and the roles of its special tokens."""

    def __init__(self, made: Backend, roles: Roles, *, where: str = "tokenizer") -> None:
        super().__init__(made)
        self.roles, self.where = roles, where

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text alone: none that is special, no frame around it.

        Raises UserError if a text is not valid Unicode.
        """
        return [
            row.ids
            for block in blocks(texts)
            for row in self._made.encode_batch_fast(block, add_special_tokens=False)
        ]

    def documents(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of whole texts, from the start symbol to the end: what a model is trained on.

        Where prompts have no start symbol, an end stands before the first text too.
        """
        end = min(self.roles.ends)
        first = self._first() or [end]
        return [[*first, *ids, end] for ids in self.encode(texts)]

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts that a model is to continue, `bos` before them where it wants that."""
        return [self._first() + ids for ids in self.encode(texts)]

    def framed(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> list[tuple[list[int], list[int]]]:
        """Ids and segments of each text, or pair of texts, in the frame that the file gives them.

        BERT's is [CLS] text [SEP], then the second and [SEP] of segment 1.
        """
        texts = list(only_unicode(texts))
        given = texts if seconds is None else list(zip(texts, only_unicode(seconds), strict=True))
        rows = self._made.encode_batch(given, add_special_tokens=True)
        return [(row.ids, row.type_ids) for row in rows]

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation up to where the assistant is to answer.

        Raises UserError if the tokeniser has no chat template, or that refuses the messages.
        """
        if self.roles.template is None:
            raise UserError(
                "this tokeniser has no chat template",
                where=self.where,
                todo="give a plain prompt, or use a model that was trained to chat",
            )
        guard = _unused(message.get("content", "") for message in messages)
        kept = [
            {**message, "content": self._guarded(message.get("content", ""), guard)}
            for message in messages
        ]
        text = render_chat(self.roles.template, kept, specials=self._names(), where=self.where)
        ids = self._parse(text, guard)
        return ids if self._begins(ids) else self._first() + ids

    def stream(self) -> Callable[[int], str]:
        """A function from the next id to the text that it completes: nothing while a letter of
        several tokens is not whole.
        """
        stream = DecodeStream(skip_special_tokens=True)
        return lambda id: stream.step(self._made, id) or ""

    def _guarded(self, content: str, guard: str) -> str:
        """A message in which no special token is spelled, by a letter put into each."""
        return self._specials().sub(lambda found: found[0][:1] + guard + found[0][1:], content)

    def _parse(self, text: str, guard: str) -> list[int]:
        """The ids of what a template wrote: its special tokens are such, a user's are text."""
        ids, begin = [], 0
        for found in self._specials().finditer(text):
            ids += self._plain(text[begin : found.start()], guard)
            ids.append(self._ids[found[0]])
            begin = found.end()
        return ids + self._plain(text[begin:], guard)

    def _plain(self, text: str, guard: str) -> list[int]:
        (ids,) = self.encode([text.replace(guard, "")])
        return ids

    def _specials(self) -> re.Pattern[str]:
        longest_first = sorted(self._ids, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def _first(self) -> list[int]:
        return [self.roles.bos] if self.roles.adds_bos and self.roles.bos is not None else []

    def _begins(self, ids: Sequence[int]) -> bool:
        """Whether the start symbol is there already, or not wanted: it must not come twice."""
        return not self._first() or list(ids[:1]) == self._first()

    def _names(self) -> dict[str, str]:
        """What templates call the special tokens."""
        ids = {"bos_token": self.roles.bos, "pad_token": self.roles.pad}
        ids["eos_token"] = min(self.roles.ends, default=None)
        named = {name: self._made.id_to_token(id) for name, id in ids.items() if id is not None}
        return {name: token for name, token in named.items() if token is not None}


def _unused(texts: Iterable[str]) -> str:
    """A letter for private use that none of the texts has."""
    used = set().union(*texts)
    return next(letter for letter in map(chr, range(0xE000, 0xF900)) if letter not in used)
