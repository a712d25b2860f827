"""Conversations as one text, by the template that came with a tokeniser.

A template is a program from whoever made the file: it runs in jinja2's sandbox, sees the messages
and the special tokens, and nothing else. Templates follow the conventions of Hugging Face.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headway.base.errors import UserError

Message = Mapping[str, str]
LONGEST = 10_000_000  # letters that a template may write


def render_chat(
    template: str,
    messages: Sequence[Message],
    *,
    specials: Mapping[str, str],
    where: str,
    answer: bool = True,
) -> str:
    """The text of a conversation; with `answer` it ends where the assistant's next turn begins.

    Each message has a `role` and a `content`; `specials` are "bos_token" and the like. Raises
    UserError for a message without them, a template that is broken, that refuses the messages, or
    that does not come to an end.
    """
    for number, message in enumerate(messages, start=1):
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str):
            raise UserError(
                f"message {number} has no 'role' and 'content' that are texts", where="messages"
            )
    values = {**specials, "messages": list(messages), "add_generation_prompt": answer}
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


class _Refused(TemplateError):
    """What a template's own `raise_exception` says."""


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise _Refused(message)
