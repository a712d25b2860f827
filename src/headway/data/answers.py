"""Prompts and the answers to them, or whole conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headway.data.examples import Examples, read_examples
from headway.data.labelled import NO_TEXT
from headway.data.rows import Wanted
from headway.data.tables import PartName
from headway.settings.rows import AnswerPart, AnswerSettings

NO_ANSWER = "no answer"
NO_CONVERSATION = "no conversation in which the assistant speaks"


def read_answers(settings: AnswerSettings, name: PartName) -> Examples | None:
    """The rows of a part: prompt and answer, or a conversation alone; None if there is no such.

    Raises UserError as `read_examples` does.
    """

    def fault(texts: Sequence[str]) -> str | None:
        if len(texts) == 1:
            return None if conversation(texts[0]) else NO_CONVERSATION
        return next(
            (
                what
                for what, text in zip((NO_TEXT, NO_ANSWER), texts, strict=True)
                if not text.strip()
            ),
            None,
        )

    return read_examples(settings, name, _wanted, fault)


def conversation(text: str) -> list[dict[str, str]] | None:
    """The messages that a JSON text holds, None if it holds none that can be learnt from."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    messages = [
        {"role": each["role"], "content": each["content"]}
        for each in found
        if isinstance(each, dict)
        and isinstance(each.get("role"), str)
        and isinstance(each.get("content"), str)
    ]
    if len(messages) < len(found):
        return None
    says = any(each["role"] == "assistant" and each["content"].strip() for each in messages)
    return messages if says else None


def _wanted(part: AnswerPart, key: str) -> Wanted:
    if part.messages is not None:
        return Wanted({"messages": part.messages}, key, lists=frozenset({"messages"}))
    return Wanted({"prompt": part.prompt, "answer": part.answer}, key)
