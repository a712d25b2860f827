"""Kill a process while it saves checkpoints, and see that a whole one is there each time.

    python tests/checkpoint/kill_saves.py --kills 50        # SIGKILL at random moments
    python tests/checkpoint/kill_saves.py --every-call      # before each change of the disk

Processes are forked, so that each one costs milliseconds and not an import of torch.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from headway.checkpoint.steps import Checkpoint, newest_checkpoint, save_checkpoint

SIZE = 20_000  # numbers a tensor: enough for a kill to find files half written
CHANGES = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod")


def save(folder: Path, step: int, keep: int) -> None:
    """A checkpoint whose every number is its step."""
    weights = {f"layer.{n}": torch.full((SIZE,), float(step)) for n in range(4)}
    optimizer = {"moment": torch.full((SIZE,), float(step))}
    save_checkpoint(
        folder, step, weights=weights, optimizer=optimizer, state={"step": step}, keep=keep
    )


def check(folder: Path, at_least: int) -> int:
    """The newest step; fails unless each folder of a step is whole and none was lost."""
    newest, passed_over = newest_checkpoint(folder)
    if newest is None or newest.step < at_least or passed_over:
        names = sorted(path.name for path in folder.iterdir())
        sys.exit(f"step {at_least} was saved, found {newest}, {passed_over}, {names}")
    others = [Checkpoint(int(at.name[5:]), at) for at in folder.glob("step-*")]
    for found in [newest, *others]:
        tensors = found.weights() | found.optimizer()
        numbers = {float(value) for tensor in tensors.values() for value in tensor.unique()}
        if len(tensors) != 5 or numbers != {float(found.step)}:
            sys.exit(f"{found} holds {numbers}")
        if found.state() != {"step": found.step} or not (found.path / "complete.json").exists():
            sys.exit(f"{found} is half")
    return newest.step


def in_child(work: Callable[[], None]) -> int:
    """Start a process that does `work` and ends; its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return child


def kill_at_random(folder: Path, kills: int, seed: int) -> None:
    """Save each step twice, keep one, go on from the newest after each kill."""
    moments = random.Random(seed)
    save(folder, 1, keep=1)
    reached = check(folder, 1)
    for _ in range(kills):
        reading, writing = os.pipe()

        def saves(first: int = reached, pipe: int = writing) -> None:
            for step in range(first + 1, first + 1_000_000):
                for _again in range(2):
                    save(folder, step, keep=1)
                    os.write(pipe, f"{step}\n".encode())

        child = in_child(saves)
        os.close(writing)
        told = os.read(reading, 4096)  # the first save is done: kills hit the ones after it
        time.sleep(moments.uniform(0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while part := os.read(reading, 4096):
            told += part
        os.close(reading)
        steps = [int(line) for line in told.split(b"\n") if line]
        reached = check(folder, max([reached, *steps]))
    print(f"{kills} kills, each left a whole checkpoint; step {reached} reached")


def kill_at_every_call(folder: Path) -> None:
    """End a save before its first, second, … change of the disk, until one comes through.

    Each starts from a clean folder, and then from what the kill before it left.
    """
    survived = 0
    # step 2 is saved again, step 3 is new: with `keep` 1 the old one goes then
    for step, clean in itertools.product((2, 3), (True, False)):
        save(folder, 2, keep=1)
        for calls in range(10_000):
            if clean:
                save(folder, 2, keep=1)

            def one_save(calls: int = calls, step: int = step) -> None:
                left = [calls]

                def hook(event: str, _: object) -> None:
                    if event in CHANGES:
                        if left[0] == 0:
                            os._exit(9)
                        left[0] -= 1

                sys.addaudithook(hook)
                save(folder, step, keep=1)
                os._exit(0)

            _, status = os.waitpid(in_child(one_save), 0)
            check(folder, 2)
            if os.waitstatus_to_exitcode(status) == 0:
                break
            survived += 1
    print(f"{survived} kills, each left a whole checkpoint")


def main() -> None:
    """Read the command line and kill."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every-call", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # the calls are the same on a disk of memory, and quicker
    quick = "/dev/shm" if options.every_call and Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=quick) as folder:
        if options.every_call:
            kill_at_every_call(Path(folder))
        else:
            kill_at_random(Path(folder), options.kills, options.seed)


if __name__ == "__main__":
    main()
