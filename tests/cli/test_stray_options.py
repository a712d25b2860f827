"""Options that would say nothing are refused, not passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--task", "glue/sst2", "--tasks", "a"), "--task and --tasks are two questions"),
        (("--task", "glue/sst2", "--beam", 2), "--task: --beam is for a translator"),
        (("--task", "glue/sst2", "--lines", 2), "--lines goes with --tasks; add --tasks NAME"),
        (("--glue", "a"), "--glue goes with --task; add --task NAME"),
        (("--shots", 2), "--shots goes with --tasks"),
        (("--tasks", "a", "--data", "a", "b"), "--tasks: --data is for a translator"),
    ],
)
def test_options_of_another_question(words: tuple[Any, ...], what: str, cli: Cli) -> None:
    assert what in cli("evaluate", "a-run", *words).error


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--greedy", "--temperature", 0.5), "--greedy: --temperature is for random draws"),
        (("--greedy", "--top-k", 0), "--greedy: --top-k is for random draws"),
        (("--chat", "--prompt", " "), "--chat: an empty message asks nothing"),
    ],
)
def test_generate_takes_what_it_can_use(words: tuple[Any, ...], what: str, cli: Cli) -> None:
    assert what in cli("generate", "a-model", *words, stdin=b"").error
