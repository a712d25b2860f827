"""Checkpoints of a run, a folder a step: complete or absent, never half.

A save fills a folder of another name, ends with `complete.json` (size and SHA-256 of every file),
has all of it on the disk and then renames it. So a kill or a full disk at any moment leaves what
was there before; what is damaged later is found by the sizes and hashes and passed over.

Of weights that are spread over ranks each rank writes a file of its own (see `shards`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.base.errors import UserError
from headway.base.files import (
    atomic_folder,
    clear_leftovers,
    digest,
    explain_os_errors,
    part_of,
    read_json,
    remove_folder,
    replaced_name,
    to_json,
)
from headway.checkpoint.run import FORMAT
from headway.checkpoint.shards import read_shards, untied, write_shards
from headway.checkpoint.weights import read_tensors, write_tensors
from headway.training.ranks import Ranks

WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_RECORD = "complete.json"
_TIED = "tied"  # of a state: other names of a tensor -> its first one
_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on from a step as if it had never stopped."""

    step: int
    path: Path

    @property
    def sharded(self) -> bool:
        """Whether ranks wrote a file each."""
        return not (self.path / WEIGHTS).exists()

    def weights(self) -> dict[str, Tensor]:
        """The model's tensors by name."""
        if self.sharded:
            tensors = read_shards(self.path, optimizer=False)
            return tensors | {name: tensors[first] for name, first in self.state()[_TIED].items()}
        return read_tensors(self.path / WEIGHTS)

    def optimizer(self) -> dict[str, Tensor]:
        """The optimiser's tensors by name."""
        if self.sharded:
            return read_shards(self.path, optimizer=True)
        return read_tensors(self.path / OPTIMIZER)

    def state(self) -> dict[str, Any]:
        """The plain values: position in the data, randomness, best score."""
        state: dict[str, Any] = read_json(self.path / STATE)
        return state


def save_checkpoint(
    folder: Path,
    step: int,
    *,
    weights: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    state: Mapping[str, Any],
    keep: int,
    also: Collection[int] = (),
) -> Path:
    """Write `step-STEP` in `folder`, then leave only the `keep` newest up to this step.

    Of the older ones those of the steps `also` stay too.

    Checkpoints of later steps are of a past that this run did not have (it went back because they
    were broken) and go too. Raises UserError where the disk is full or refuses, with the older
    checkpoints untouched; ValueError where `state` would not come back from JSON as it is.
    """

    def write(part: Path) -> None:
        write_tensors(part / WEIGHTS, weights)
        write_tensors(part / OPTIMIZER, optimizer)

    return _filled(folder, step, write, state=state, keep=keep, also=also)


def save_shards(
    folder: Path,
    step: int,
    *,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    keep: int,
    also: Collection[int] = (),
    ranks: Ranks,
) -> None:
    """`save_checkpoint` of tensors that are spread over ranks, the optimiser's among them.

    Names of one tensor are written once. All ranks must ask: each writes a file, the first one all
    the rest. Raises UserError, each, as `save_checkpoint`, and for a folder that is not the same
    one for all of them.
    """
    kept, tied = untied(tensors)

    def write(part: Path) -> None:
        ranks.told([os.getpid()])
        write_shards(part, kept)

    if ranks.leads:
        _filled(folder, step, write, state={**state, _TIED: tied}, keep=keep, also=also)
    else:
        (process,) = ranks.told([0])
        part = part_of(folder / f"step-{step}", int(process))
        if not part.is_dir():
            what = f"rank {ranks.rank} does not see the folder that the first rank writes to"
            todo = "choose one with --out that is on a disk of all machines"
            raise UserError(what, where=str(folder), todo=todo)
        with explain_os_errors(folder / f"step-{step}"):
            write_shards(part, kept)
    ranks.wait()


def _filled(
    folder: Path,
    step: int,
    write: Callable[[Path], None],
    *,
    state: Mapping[str, Any],
    keep: int,
    also: Collection[int] = (),
) -> Path:
    text = _state_text(state)
    path = folder / f"step-{step}"
    clear_leftovers(folder)
    with atomic_folder(path) as part:
        write(part)
        (part / STATE).write_text(text, encoding="utf-8")
        files = {
            file.name: {"size": file.stat().st_size, "sha256": digest(file)}
            for file in sorted(part.iterdir())
        }
        record = {"format": FORMAT, "step": step, "files": files}
        (part / _RECORD).write_text(to_json(record), encoding="utf-8")
    _prune(folder, step, keep, also)
    return path


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest complete checkpoint, and a message for each newer one that is broken.

    Sizes and hashes of the one returned are checked. Raises UserError for one of another format.
    """
    passed_over = []
    for step, path in _steps(folder):
        if flaw := _flaw(step, path) or _changed(path):
            passed_over.append(f"{path}: {flaw}; passed over")
        else:
            return Checkpoint(step, path), passed_over
    return None, passed_over


def whole_checkpoints(folder: Path, steps: Collection[int]) -> list[Checkpoint]:
    """The complete checkpoints of these steps, newest first; their sizes are checked."""
    found = {at: path for at, path in reversed(_steps(folder)) if not _flaw(at, path)}
    return [Checkpoint(at, found[at]) for at in sorted(found, reverse=True) if at in steps]


def mean_weights(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights of some checkpoints, one of them in memory at a time."""
    sums: dict[str, Tensor] = {}
    for checkpoint in checkpoints:
        for name, tensor in checkpoint.weights().items():
            exact = tensor.double()
            sums[name] = sums[name] + exact if name in sums else exact
    return {name: (total / len(checkpoints)).float() for name, total in sums.items()}


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """Steps and folders, newest first; one that a killed save had moved aside comes after its own.

    Reads only, so that a run on a disk that cannot be written opens too.
    """
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        replaced = replaced_name(path)
        match = _NAME.fullmatch(replaced or path.name)
        if match and path.is_dir():
            found.append((int(match[1]), replaced is None, path))
    return [(step, path) for step, _, path in sorted(found, reverse=True)]


def _flaw(step: int, path: Path) -> str | None:
    """What the record and the sizes show to be wrong, None if nothing is."""
    if not (path / _RECORD).is_file():
        return f"there is no {_RECORD}"
    try:
        record = read_json(path / _RECORD)
        written, its_step = record["format"], record["step"]
        sizes = {name: entry["size"] for name, entry in record["files"].items()}
        ours = {WEIGHTS, OPTIMIZER} & sizes.keys()
        lists = len(ours) == 2 or (not ours and any(name.startswith("shard-") for name in sizes))
        if not (lists and STATE in sizes):
            return f"{_RECORD} is broken"
    except (UserError, KeyError, TypeError, AttributeError):
        return f"{_RECORD} is broken"
    if written != FORMAT:
        raise UserError(
            f"a checkpoint of format {written}, this version reads format {FORMAT}",
            where=str(path),
            todo="use the version of headway that wrote it, or train anew in another folder",
        )
    if its_step != step:
        return f"{_RECORD} is of step {its_step}"
    for name, size in sizes.items():
        if not (path / name).is_file():
            return f"there is no {name}"
        if (found := (path / name).stat().st_size) != size:
            return f"{name} has {found} bytes instead of {size}"
    return None


def _changed(path: Path) -> str | None:
    """The file whose bytes are not those that were written, None if all are."""
    files = read_json(path / _RECORD)["files"]
    for name in files:
        if digest(path / name) != files[name].get("sha256"):
            return f"{name} is not as it was written (SHA-256)"
    return None


def _prune(folder: Path, step: int, keep: int, also: Collection[int]) -> None:
    good = [path for at, path in _steps(folder) if at <= step and _flaw(at, path) is None]
    newest = good[: max(1, keep)]
    for at, path in _steps(folder):
        if path not in newest and not (at in also and path in good):
            remove_folder(path)


def _state_text(state: Mapping[str, Any]) -> str:
    """JSON that gives the same values back: floats bit for bit, no NaN, no tuples."""
    try:
        text = json.dumps(dict(state), indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a checkpoint's state must be plain JSON: {error}") from error
    if json.loads(text) != dict(state):
        raise ValueError("a checkpoint's state must be plain JSON: lists, and strings as keys")
    return text + "\n"
