"""Contests: programs do the same work in turns, each in a process of its own.

A turn is short and the others sleep meanwhile, so that what disturbs the machine disturbs all of
them alike; of many turns the median counts. Memory, kept pages and settings are each process's
own. A second busy process can make threads that wait for each other ten times slower, and a ratio
measured then means nothing: so a contest looks for signs of one, and says what it saw.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from statistics import median
from typing import Any, ParamSpec, Self

P = ParamSpec("P")
Row = dict[str, Any]
Work = Callable[[], tuple[float, dict[str, Any]]]
"""Does the work of one turn: how much it was, and what there is to tell of it."""

LARGEST_SPREAD = 1.15  # fastest turn to slowest of one contender, all of the same work
MOST_ELSEWHERE = 0.1  # cores that were busy with something else


class Lost(RuntimeError):
    """The contender `name` ended before its answer; what it wrote to standard error tells why."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class Turn:
    """One turn of a contender."""

    amount: float
    seconds: float
    cpu_seconds: float  # of all its threads
    elsewhere: float | None  # cores busy with other processes meanwhile; None: not to be known
    peak_mib: float  # of the process since its start
    told: dict[str, Any]

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.amount / self.seconds


class Contender:
    """A process that waits for its turns; `serve` is its other end."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def answer(self) -> dict[str, Any]:
        """Wait for its next answer; the first says that it is ready. Raises Lost."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Lost(self.name, f"{self.name} ended with code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def turn(self) -> Turn:
        """Let it do its work once. Raises Lost."""
        assert self.process.stdin is not None
        before = busy_seconds()
        with suppress(BrokenPipeError):  # it has ended: there will be no answer
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        answer = self.answer()
        after = busy_seconds()
        elsewhere = None
        if before is not None and after is not None:
            elsewhere = max(0.0, (after - before - answer["cpu_seconds"]) / answer["seconds"])
        return Turn(**answer, elsewhere=elsewhere)


def contest(
    commands: Mapping[str, Sequence[str]], *, rounds: int, warm_up: int = 1
) -> dict[str, list[Turn]]:
    """The turns of each contender, `rounds` of them after `warm_up` that do not count.

    Who begins changes from round to round. Raises Lost if one of them ends early.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in commands}
    with ExitStack() as stack:
        contenders = []
        for name, command in commands.items():
            print(f"  {name}: getting ready ...", file=sys.stderr, flush=True)
            contenders.append(stack.enter_context(Contender(name, command)))
            contenders[-1].answer()  # one after the other
        for number in range(warm_up + rounds):
            first = number % len(contenders)
            for each in contenders[first:] + contenders[:first]:
                turn = each.turn()
                if number >= warm_up:
                    turns[each.name].append(turn)
                    text = f"  {each.name}: {turn.rate:,.1f} a second"
                    print(text, file=sys.stderr, flush=True)
    return turns


def remaining(
    commands: Mapping[str, Sequence[str]], *, rounds: int
) -> tuple[dict[str, list[Turn]], dict[str, str]]:
    """The turns of `contest` without the contenders that are lost, and of those the reasons.

    Where one is lost the others begin anew, for one that dies disturbs them. Raises Lost if it is
    the first of all, with whom the others are compared.
    """
    left, lost = dict(commands), dict[str, str]()
    while True:
        try:
            return contest(left, rounds=rounds), lost
        except Lost as error:
            if error.name == next(iter(commands)):
                raise
            lost[error.name] = str(error)
            del left[error.name]


def rows_or_reason(
    about: Row, measure: Callable[P, list[Row]], *given: P.args, **named: P.kwargs
) -> list[Row]:
    """The rows of that measurement; where a contender is lost, one with the reason.

    So that what was measured before it, and what is measured after it, is not lost too.
    """
    try:
        return measure(*given, **named)
    except Lost as error:
        return [lost_row(about, str(error))]


def lost_row(about: Row, reason: str) -> Row:
    """What stands in place of figures that a lost contender does not have: the run has failed."""
    return about | {"reason": reason, "agrees": False}


def once(command: Sequence[str]) -> dict[str, Any]:
    """What a contender tells of a single turn. Raises Lost."""
    with Contender("check", command) as contender:
        contender.answer()
        return contender.turn().told


def speed_row(ours: Sequence[Turn], theirs: Sequence[Turn], limit: float | None = None) -> Row:
    """Work a second of both, the median of the rounds' ratios with its range, and the quiet.

    `cpu_ratio` is that of work a second of processor time: on a busy machine it is what is left to
    look at, with one thread; waiting threads spin and count. `limit_share` is which part ours has
    of `limit`, the work a second that the machine allows at most.
    """
    ratios = [one.rate / other.rate for one, other in zip(ours, theirs, strict=True)]
    found = {
        "ours": round(median(turn.rate for turn in ours), 1),
        "theirs": round(median(turn.rate for turn in theirs), 1),
        "ratio": round(median(ratios), 3),
        "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
        "cpu_ratio": round(_cpu_rate(ours) / _cpu_rate(theirs), 3),
        "rounds": len(ratios),
        "unquiet": disturbances({"ours": ours, "theirs": theirs}),
    }
    if limit is not None:
        found["limit_share"] = round(median(turn.rate for turn in ours) / limit, 3)
    return found


def _cpu_rate(turns: Sequence[Turn]) -> float:
    return median(turn.amount / turn.cpu_seconds for turn in turns)


def memory_row(ours: Sequence[Turn], theirs: Sequence[Turn]) -> Row:
    """The largest memory of both processes; below 1 is less than theirs."""
    mine, other = (max(turn.peak_mib for turn in turns) for turns in (ours, theirs))
    return {"ours": round(mine), "theirs": round(other), "ratio": round(mine / other, 3)}


def disturbances(turns: Mapping[str, Sequence[Turn]]) -> list[str]:
    """What says that the machine was not quiet; nothing if it was."""
    found = []
    for name, each in turns.items():
        spread = max(turn.seconds for turn in each) / min(turn.seconds for turn in each)
        if spread > LARGEST_SPREAD:
            found.append(f"{name}: the slowest round took {spread:.2f} times the fastest")
        elsewhere = max((turn.elsewhere or 0.0 for turn in each), default=0.0)
        if elsewhere > MOST_ELSEWHERE:
            found.append(f"{name}: {elsewhere:.1f} cores were busy with something else")
    return found


def serve(prepare: Callable[[], Work]) -> None:
    """A contender's end: get ready, then do the work once for each line that comes in."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    work = prepare()
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        amount, told = work()
        answer = {
            "amount": amount,
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu,
            "peak_mib": peak_mib(),
            "told": told,
        }
        print(json.dumps(answer), file=answers, flush=True)


def peak_mib() -> float:
    """The most memory that this process has held at once, in MiB."""
    try:
        # what getrusage says includes the process that this one was started from
        with open("/proc/self/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def busy_seconds() -> float | None:
    """Seconds that all cores together have worked, for whomever; None where nobody counts them."""
    try:
        with open("/proc/stat", encoding="utf-8") as file:
            user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
