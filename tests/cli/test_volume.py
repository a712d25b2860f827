"""Decoding at volume: windows, speed, clean stops, and what is told at the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import Interrupted
from headway.cli import translate as verb
from headway.cli.volume import Stops, Unfinished, open_lines

Cli = Callable[..., Any]
Run = Callable[[str], Path]
COMMAND = Path(sys.executable).with_name("headway")
PATIENCE_S = 60


def start(*words: object) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    environment.pop("PYTHONWARNDEFAULTENCODING", None)  # torch's own files would be told of
    return subprocess.Popen(
        [COMMAND, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


@pytest.mark.parametrize(
    "words", [(), ("--beam", 1), ("--nbest", 2), ("--temperature", 1.3, "--seed", 4)]
)
def test_windows_change_nothing(
    words: tuple[object, ...], trained: Run, cli: Cli, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (toy / "test.fr").read_bytes() + b"\n \nchat\n" + b"chat " * 200
    with monkeypatch.context() as patch:
        patch.setattr(verb, "WINDOW", 7)
        parts = cli("translate", trained("transformer"), *words, stdin=data)
    assert re.search(r"^warning: line 44 has .* was cut", parts.err, re.M)
    whole = cli("translate", trained("transformer"), *words, stdin=data)
    assert words_of(parts.out) == words_of(whole.out)
    if "--nbest" not in words:  # a drawn text may have tabs in it
        assert parts.out == whole.out
        return
    assert numbers_of(parts.out) == pytest.approx(numbers_of(whole.out), abs=2e-4)


def words_of(out: bytes) -> list[list[str]]:
    rows = [line.split("\t") for line in out.decode("utf-8").split("\n")]
    return [row[:1] + row[3:] for row in rows]


def numbers_of(out: bytes) -> list[float]:
    rows = [line.split("\t") for line in out.decode("utf-8").split("\n")]
    return [float(number) for row in rows for number in row[1:3]]


def test_one_figure_at_the_end(trained: Run, cli: Cli) -> None:
    said = cli("translate", trained("plain"), "--beam", 1, stdin=b"un chat\n\n" * 100)
    assert re.search(r"^200 lines in \d+\.\d s: [\d.]+ sentences/s$", said.err, re.M)
    assert cli("translate", trained("plain"), "--beam", 1, stdin=b"un\n" * 10).err == ""


def test_whoever_types_is_answered_line_by_line(trained: Run) -> None:
    process = start("translate", trained("attention"), "--beam", 1)
    assert process.stdin is not None
    assert process.stdout is not None
    for word, answer in ((b"un", b"one"), (b"chat", b"cat"), (b"", b""), (b"vert", b"green")):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == answer + b"\n"
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_whoever_types_sees_at_once_how_it_splits(trained: Run) -> None:
    process = start("tokenizer", "encode", trained("attention"), "--side", "source", "--pieces")
    assert process.stdin is not None
    assert process.stdout is not None
    for word in (b"chat", b"", b"vert"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        # without an answer this waits for ever, and the suite's own time limit ends it
        assert process.stdout.readline().decode().endswith("</s>\n")
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_after_a_whole_line(
    number: signal.Signals, trained: Run, tmp_path: Path
) -> None:
    process = start("translate", trained("attention"), "--attention", tmp_path / "links")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"un chat\n" * 3)
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(3)]
    assert lines == [b"one cat\n"] * 3
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, err
    assert out == b""
    assert err == b"stopped after line 3\n"
    assert (tmp_path / "links").read_bytes() == b"0-0 1-1\n" * 3


def test_a_reader_who_leaves_ends_it(trained: Run, tmp_path: Path) -> None:
    process = start("translate", trained("plain"), "--beam", 1)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"un\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()  # as `head -1` does
    process.stdin.write(b"un\n")
    process.stdin.flush()
    assert process.stderr.read() == b""
    assert process.wait(PATIENCE_S) == 1
    process.stdin.close()


def test_a_signal_waits_for_what_is_being_written() -> None:
    written: list[int] = []

    def write(stops: Stops) -> None:
        with stops.writing(3):
            written.append(1)
        with stops.writing(2):
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0.01)
            written.append(2)
        written.append(3)

    with Stops() as stops, pytest.raises(Interrupted, match="stopped after line 5") as stopped:
        write(stops)
    assert written == [1, 2]
    assert stopped.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_file_of_lines_can_be_read_while_it_grows(tmp_path: Path) -> None:
    with open_lines(tmp_path / "new" / "lines") as file:
        file.write(["a", "b"])
        assert (tmp_path / "new" / "lines").read_bytes() == b"a\nb\n"


def test_a_second_signal_does_not_wait() -> None:
    def write(stops: Stops) -> None:
        with stops.writing(2):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it waited")

    with Stops() as stops, pytest.raises(Interrupted, match="stopped after line 0"):
        write(stops)


def test_what_was_cut_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = Unfinished()
    for number in range(1, 10):
        unfinished.note(number, "loop" if number != 4 else "end")
    unfinished.note(4, "limit")
    unfinished.say()
    assert capsys.readouterr().err == (
        "notice: translations cut at their limit while they repeated themselves: 8 "
        "(lines 1, 2, 3, 5, 6, …)\n"
        "notice: translations cut at their limit: 1 (lines 4)\n"
    )


def test_what_the_tokeniser_does_not_know_is_told(trained: Run, cli: Cli) -> None:
    said = cli("translate", trained("plain"), stdin=b"\nun zebre\nle chat noir\nun zebre\n")
    assert said.err == (
        "notice: unknown to the tokeniser: 4 of 7 tokens, such as 'zebre', 'le', 'noir' "
        "(lines 2, 3, 4)\n"
    )


def test_a_loop_is_told_with_its_line(
    trained: Run, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap D8: by a model that has forgotten how to end."""
    from headway.runs import translator as module

    def endless(self: Any) -> dict[str, Any]:
        target = self.tokenizers.target
        return {"bos": target.bos, "eos": target.eos, "banned": (target.eos,)}

    monkeypatch.setattr(module.Translator, "_symbols", endless)
    said = cli("translate", trained("transformer"), "--beam", 1, stdin=b"\nun chat\nvert vert\n")
    assert said.code == 0
    assert "notice: translations cut at their limit" in said.err
    assert "lines 2" in said.err
    rows = cli("translate", trained("transformer"), "--nbest", 1, stdin=b"\nun chat\n").out
    stops = [line.split(b"\t")[3] for line in rows.splitlines()]
    assert stops[0] == b"end"
    assert stops[1] in (b"loop", b"limit")
