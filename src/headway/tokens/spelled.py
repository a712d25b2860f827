"""What a chat template wrote, as ids: its special tokens are such, a user's text never is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer as Backend

from headway.tokens.chat import Message, check_messages
from headway.tokens.codec import only_unicode
from headway.tokens.lossless import parts_of


class Spelled:
    """The special tokens `ids` of a tokeniser as texts spell them.

    `of_text` takes control tokens out of the ids that the library gives for plain text.
    """

    def __init__(
        self, made: Backend, ids: Mapping[str, int], of_text: Callable[[list[int]], list[int]]
    ) -> None:
        self._made, self._ids, self._of_text = made, ids, of_text
        self._patterns: dict[str, re.Pattern[str]] = {}  # by the guard, which hardly ever changes

    def guarded(self, value: Any, guard: str) -> Any:
        """What a message has, in which no special token is spelled: a letter is put into each.

        It goes behind the first letter, and before a token of one letter, where `parse` sees it.
        """
        if isinstance(value, str):
            single = self._singles.sub(lambda found: guard + found[0], value)
            return self._begins.sub(lambda found: found[0] + guard, single)
        if isinstance(value, Mapping):
            return {key: self.guarded(each, guard) for key, each in value.items()}
        return [self.guarded(each, guard) for each in value] if isinstance(value, list) else value

    def parse(self, text: str, guard: str, *, begins: bool = True) -> list[int]:
        """The ids of what a template wrote; with `begins` it is the beginning of a text.

        Only there some tokenisers put a blank before it, not behind each special token.
        """
        ids: list[int] = []
        begin = 0
        for found in self._written(guard).finditer(text):
            before = text[begin : found.start()].replace(guard, "")
            ids += self.plain(before, begins=begins and begin == 0)
            ids.append(self._ids[found[found.lastindex or 0]])
            begin = found.end()
        rest = text[begin:].replace(guard, "")
        return ids + self.plain(rest, begins=begins and begin == 0)

    def plain(self, text: str, *, begins: bool) -> list[int]:
        """The ids of a text that no special token is in."""
        made = self._made if begins else self._within
        (text,) = only_unicode([text])
        return self._of_text(made.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _begins(self) -> re.Pattern[str]:
        """The first letter of each token of several, also where it is within another token."""
        names = (name for name in self._longest_first() if len(name) > 1)
        inner = (f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names)
        return re.compile("|".join(inner) or "(?!)")

    @cached_property
    def _singles(self) -> re.Pattern[str]:
        names = (name for name in self._ids if len(name) == 1)
        return re.compile("|".join(map(re.escape, names)) or "(?!)")

    def _written(self, guard: str) -> re.Pattern[str]:
        """The tokens as groups, with the blanks that some take with them.

        The guard is within those that a message spells, but before those of one letter.
        """
        if guard not in self._patterns:
            added = self._made.get_added_tokens_decoder()
            parts = []
            for name in self._longest_first():
                flags = added[self._ids[name]]
                before, after = (
                    r"\s*" if strips else "" for strips in (flags.lstrip, flags.rstrip)
                )
                free = f"(?<!{re.escape(guard)})" if len(name) == 1 else ""
                parts.append(f"{before}{free}({re.escape(name)}){after}")
            self._patterns[guard] = re.compile("|".join(parts) or "(?!)")
        return self._patterns[guard]

    def _longest_first(self) -> list[str]:
        return sorted(self._ids, key=len, reverse=True)

    @cached_property
    def _within(self) -> Backend:
        """The tokeniser for what does not begin a text."""
        file = json.loads(self._made.to_str())
        at_the_start = [
            step
            for step in parts_of(file["pre_tokenizer"], "pretokenizers")
            if step["type"] == "Metaspace" and step["prepend_scheme"] == "first"
        ]
        if not at_the_start:
            return self._made
        for step in at_the_start:
            step["prepend_scheme"] = "never"
        made = Backend.from_str(json.dumps(file))
        made.encode_special_tokens = True
        return made


def guard_of(messages: Sequence[Message], names: Iterable[str]) -> str:
    """A letter for private use that no message has, and none of the special tokens `names`.

    Raises UserError for what is no message.
    """
    check_messages(messages)
    used = set(json.dumps([*map(dict, messages)], ensure_ascii=False, default=str)).union(*names)
    return next(letter for letter in map(chr, range(0xE000, 0xF900)) if letter not in used)
