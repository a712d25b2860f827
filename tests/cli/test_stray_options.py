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


QUESTION = ["--money=1k", "--hours=2", "--loss=2", "--params=1B", "--tokens=1B"]
QUESTION += ["--serve-tokens=1B", "--unique-tokens=1B"]
WRITTEN = ["--recipe=a.toml", "--choice=little text"]
GROUND = ["--law=chinchilla", "--length=8", "--vocabulary=8", "--utilisation=0.4"]


@pytest.mark.parametrize(
    ("words", "strays"),
    [
        (("--table",), [*QUESTION, *WRITTEN, "--machine=h100-sxm:8"]),
        (("--calibrate", "a-run"), [*QUESTION, *WRITTEN, *GROUND, "--html=a.html", "--table"]),
        (("--money", "1k"), ["--choice=little text"]),
    ],
)
def test_plan_takes_what_it_can_use(words: tuple[str, ...], strays: list[str], cli: Cli) -> None:
    for stray in strays:
        said = cli("plan", *words, stray)
        assert f"error: {stray.partition('=')[0]}" in said.error
        assert "would say nothing; leave it out" in said.error


def test_what_money_buys_depends_on_what_it_rests_on(cli: Cli) -> None:
    plain = cli("plan", "--table").out
    for words in (("--utilisation", "0.2"), ("--length", "8192"), ("--vocabulary", "100000")):
        said = cli("plan", "--table", *words)
        assert said.code == 0, said.err
        assert said.out != plain


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
