"""Conversations as one text, by the template that came with a tokeniser.

A template is a program from whoever made the file: it runs in jinja2's sandbox, sees the messages
and the special tokens, and nothing else. Templates follow the conventions of Hugging Face.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headway.base.errors import UserError

Message = Mapping[str, str]
LONGEST = 10_000_000  # letters that a template may write
_ROUNDS = 1_000_000  # of its loops over numbers
_LARGEST_POWER = 64


def render_chat(
    template: str,
    messages: Sequence[Message],
    *,
    specials: Mapping[str, str],
    where: str,
    answer: bool = True,
) -> str:
    """The text of a conversation; with `answer` it ends where the assistant's next turn begins.

    The messages are as `check_messages` wants them; `specials` are "bos_token" and the like. Raises
    UserError for a template that is broken, that refuses the messages, or that writes or counts
    without end. It cannot reach out of the sandbox; what it can still do is waste time and memory.
    """
    known = {"tools": None, "documents": None, "add_generation_prompt": answer}
    values = {**specials, **known, "messages": [*map(_as_told, messages)]}
    try:
        parts, length = [], 0
        for part in _environment().from_string(template).generate(**values):
            parts.append(part)
            length += len(part)
            if length > LONGEST:
                raise UserError(f"the chat template writes over {LONGEST:,} letters", where=where)
    except UserError:
        raise
    except RecursionError:
        raise UserError("the chat template calls itself without end", where=where) from None
    except Exception as error:  # a template can raise anything that Python can
        what = "refuses these messages" if isinstance(error, _Refused) else "does not work"
        kind = "" if isinstance(error, TemplateError) else f" ({type(error).__name__})"
        raise UserError(f"the chat template {what}: {error}{kind}", where=where) from error
    return "".join(parts)


def check_messages(messages: Sequence[Message]) -> None:
    """Raise UserError for a message without a `role` or a `content`."""
    for number, message in enumerate(messages, start=1):
        told = message if isinstance(message, Mapping) else {}
        if not all(isinstance(told.get(key), str) for key in ("role", "content")):
            raise UserError(
                f"message {number} has no 'role' and 'content' that are texts", where="messages"
            )


_REASONING = ("reasoning_content", "thinking", "reasoning")  # the names that templates read it by


def _as_told(message: Message) -> dict[str, Any]:
    """A message as templates expect it: nothing that is None, reasoning by its usual names."""
    kept: dict[str, Any] = {key: value for key, value in message.items() if value is not None}
    reasoning = next((kept[key] for key in _REASONING if key in kept), None)
    if reasoning is not None:
        kept = {"thinking": reasoning, **kept, "reasoning_content": reasoning}
    return kept


class _Refused(TemplateError):
    """What a template's own `raise_exception` says."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's, in which products and powers stay small."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(each) if isinstance(each, Sized) else abs(each) for each in (left, right)]
        bounded = math.prod(sizes) <= LONGEST if operator == "*" else max(sizes) <= _LARGEST_POWER
        if not bounded:
            raise _Refused(f"{operator} makes something too large")
        return super().call_binop(context, operator, left, right)


class _Generation(Extension):
    """{% generation %} … {% endgeneration %} marks what the assistant says: written as it is."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

    def parse(self, parser: Parser) -> nodes.Node:
        """Its body as a block of its own, so that what is set in it is not known behind it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Callable[[], str]) -> str:
        return caller()


def _counting() -> Callable[..., range]:
    """`range` for one rendering: all loops together have an end."""
    left = _ROUNDS

    def counted(*bounds: int) -> range:
        nonlocal left
        found = range(*bounds)
        left -= len(found)
        if left < 0:
            raise _Refused(f"it counts further than {_ROUNDS:,}")
        return found

    return counted


def _environment() -> ImmutableSandboxedEnvironment:
    made = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.globals["range"] = _counting()
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """jinja's own would escape the letters of HTML; the order of its settings is transformers'."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _refuse(message: str) -> None:
    raise _Refused(message)
