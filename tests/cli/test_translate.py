"""Line i of the output belongs to line i of the input, whatever is in it (traps E1, E3, C4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway

Cli = Callable[..., Any]
Run = Callable[[str], Path]
ODD = [
    "",
    "   ",
    "\t",
    "un\tchat",
    "🙂 un chat 👩‍👩‍👧",
    "un\u2028chat",
    "un\x85chat\x0bnoir\x0c",
    "un\x00chat",
    "un\rchat",
    "</s>",
    "<pad> <s> <unk> un </s> chat",
    "हिन्दी العربية 中文",
    "\ufeffun",
    "e\u0301 é \ud7a3",
    " un  chat ",
    "[b]rouge[/b] $x_1$ <script>",
]
LONG = 517  # the place, from 0, of a line of 5,000 words


@pytest.fixture(scope="module")
def lines(toy: Path) -> list[str]:
    plain = (toy / "train.fr").read_text(encoding="utf-8").splitlines()
    lines = [ODD[i // 5 % len(ODD)] if i % 5 == 0 else plain[i % 400] for i in range(1000)]
    lines[LONG] = " ".join(["chat", "chien", "vert", "boit"] * 1250)
    return lines


@pytest.mark.parametrize("kind", ["transformer", "attention"])
def test_a_thousand_lines_give_a_thousand_lines(
    kind: str, lines: list[str], trained: Run, cli: Cli
) -> None:
    ends = ["\r\n" if number % 7 == 0 else "\n" for number in range(1000)]
    data = "".join(line + end for line, end in zip(lines, ends, strict=True)).encode()
    said = cli("translate", trained(kind), "--beam", 1, stdin=data)
    assert said.code == 0
    text = said.out.decode("utf-8")
    made = text.split("\n")
    assert made.pop() == ""
    assert len(made) == len(text.splitlines()) == 1000
    for source, translation in zip(lines, made, strict=True):
        assert translation == "" or source.strip()
    # each is the translation of its own line: alike lines alike, and some of them alone
    for line in ODD:
        assert len({made[place] for place in range(1000) if lines[place] == line}) == 1
    translator = headway.load(trained(kind), device="cpu")
    for place in (1, 15, 20, 45, 333, 999):
        alone = translator.translate([lines[place]], beam=1)[0]
        assert made[place] == " ".join(alone.splitlines())
    (warning,) = (line for line in said.err.splitlines() if line.startswith("warning"))
    assert warning.startswith(f"warning: line {LONG + 1} has ")
    assert warning.endswith(" tokens and was cut to the 64 that the model can read")


def test_no_translation_breaks_a_line(
    trained: Run, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.runs.translator import Translation, Translator

    text = "a\r\nb\u2028c\x85d\x0be"
    best = [Translation(text, -2.0, -1.0, "limit")]
    monkeypatch.setattr(Translator, "n_best", lambda _, lines, *__, **___: [best for _ in lines])
    assert cli("translate", trained("plain"), stdin=b"un\nun\n").out == b"a b c d e\n" * 2
    said = cli("translate", trained("plain"), "--nbest", 1, stdin=b"un\n")
    assert said.out == b"1\t-1.0000\t-2.0000\tlimit\ta b c d e\n"


def test_no_line_and_no_line_end(trained: Run, cli: Cli) -> None:
    assert cli("translate", trained("plain"), stdin=b"") == (0, b"", "")
    ended = cli("translate", trained("plain"), stdin=b"un chat\nvert\n")
    assert ended == cli("translate", trained("plain"), stdin=b"\xef\xbb\xbfun chat\r\nvert")
    assert ended.out.count(b"\n") == 2
    assert cli("translate", trained("plain"), stdin=b"\n\n").out == b"\n\n"


def test_beams_and_the_recipe_s_beam(trained: Run, cli: Cli, toy: Path) -> None:
    data = (toy / "test.fr").read_bytes()
    outs = [
        cli("translate", trained("plain"), *words, stdin=data).out.decode("utf-8").splitlines()
        for words in ((), ("--beam", 4), ("--beam", 1))
    ]
    assert outs[0] == outs[1] != outs[2]
    texts = data.decode("utf-8").splitlines()
    assert outs[2] == headway.load(trained("plain"), device="cpu").translate(texts, beam=1)


def test_n_best_lists(trained: Run, cli: Cli) -> None:
    said = cli("translate", trained("attention"), "--nbest", 3, stdin=b"un chat\n\nvert\n")
    rows = [line.split("\t") for line in said.out.decode("utf-8").splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    assert rows[3] == ["2", "0.0000", "0.0000", "end", ""]
    for part in (rows[:3], rows[4:]):
        scores = [float(score) for _, score, *_ in part]
        assert scores == sorted(scores, reverse=True)
        assert all(float(log_prob) < 0 for _, _, log_prob, *_ in part)
        assert len({text for *_, text in part}) == 3
    one = cli("translate", trained("attention"), "--beam", 4, stdin=b"un chat\n\nvert\n")
    assert one.out.decode("utf-8").splitlines() == [rows[0][4], "", rows[4][4]]
    wide = cli("translate", trained("attention"), "--nbest", 6, "--beam", 6, stdin=b"un\n")
    assert wide.out.count(b"\n") == 6


def test_random_draws_come_again_with_their_seed(trained: Run, cli: Cli) -> None:
    def draw(*words: object) -> bytes:
        said = cli(
            "translate", trained("plain"), "--temperature", 1.5, *words, stdin=b"un chat\n\n"
        )
        assert said.code == 0, said.err
        assert said.out.endswith(b"\n\n")
        out: bytes = said.out
        return out

    assert draw("--seed", 3) == draw("--seed", 3)
    assert draw() == draw("--seed", 0)
    assert len({draw("--seed", seed) for seed in range(6)}) > 2
    greedy = cli("translate", trained("plain"), "--beam", 1, stdin=b"un chat\n\n").out
    assert draw("--top-p", 0.01) == greedy
