"""The run folder: what a recipe becomes, and all that opening it again needs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.base.errors import UserError, is_broken, unknown
from headway.base.files import (
    atomic_file,
    clear_leftovers,
    explain_os_errors,
    read_json,
    to_json,
    write_atomic,
    write_together,
)
from headway.base.records import Records
from headway.checkpoint.weights import read_tensors, write_tensors

FORMAT = 1  # of run folders and their checkpoints; a change of what is on the disk adds one
RECIPE, CONFIG, ENVIRONMENT = "recipe.toml", "config.json", "environment.json"
WEIGHTS, METRICS, CHECKPOINTS = "model.safetensors", "metrics.jsonl", "checkpoints"


class RunFolder:
    """A run on the disk. Making the object touches nothing; `create` starts a run, the rest opens.

    `path` is the folder, `metrics` the records of its progress, `checkpoints` the folder of its
    steps. What a call reads is checked then: each raises UserError saying what is wrong.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.metrics = Records(self.path / METRICS)
        self.checkpoints = self.path / CHECKPOINTS

    def create(
        self,
        recipe_toml: str,
        config: dict[str, Any],
        tokenizers: dict[str, str],
        environment: dict[str, Any],
        reports: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a run in a folder that is absent or empty.

        `tokenizers` are file names and texts, `reports` file names and what JSON is to hold there.

        config.json is written last: without it there is no run. Raises UserError where something
        is there already, or the disk refuses; then nothing of the run stays.
        """
        self.refuse_occupied()
        hashes = {name: _sha256(text) for name, text in tokenizers.items()}
        files = {
            RECIPE: recipe_toml,
            ENVIRONMENT: to_json(environment),
            **tokenizers,
            **{name: to_json(value) for name, value in (reports or {}).items()},
            CONFIG: to_json({"format": FORMAT, **config, "tokenizers": hashes}),
        }
        write_together(self.path, files)

    def recipe(self) -> dict[str, Any]:
        """The resolved recipe as a table."""
        path = self._file(RECIPE)
        try:
            return tomllib.loads(path.read_bytes().decode("utf-8"))
        except ValueError as error:  # tomllib's error and a wrong encoding are both
            raise UserError(f"not TOML: {error}", where=str(path)) from None

    def replace_recipe(self, recipe_toml: str) -> None:
        """Write down what a resumed run was told to do differently."""
        write_atomic(self.path / RECIPE, recipe_toml)

    def environment(self) -> dict[str, Any]:
        """Versions, machine and data hashes of the run's beginning."""
        environment: dict[str, Any] = read_json(self._file(ENVIRONMENT))
        return environment

    def data_hashes(self) -> dict[str, str]:
        """Part -> SHA-256 of the data that the run began with."""
        environment = self.environment()
        hashes = environment.get("data") if isinstance(environment, dict) else None
        if not isinstance(hashes, dict):
            where, todo = str(self.path / ENVIRONMENT), "put the original file back"
            raise UserError("there are no hashes of data in it", where=where, todo=todo)
        return hashes

    def has_weights(self) -> bool:
        """Whether an evaluation has chosen weights yet."""
        return (self.path / WEIGHTS).exists()

    def config(self) -> dict[str, Any]:
        """The settings of the model and the hashes of the tokenisers; the format is checked."""
        path = self._file(CONFIG)
        config = read_json(path)
        if not isinstance(config, dict) or not isinstance(config.get("format"), int):
            raise UserError("this is the file of no run", where=str(path), todo=_NOT_A_RUN)
        if config["format"] != FORMAT:
            newer = "update headway" if config["format"] > FORMAT else "use an older headway"
            raise UserError(
                f"a run of format {config['format']}, this version reads format {FORMAT}",
                where=str(path),
                todo=f"{newer} ({ENVIRONMENT} names the version that wrote it), or train it again",
            )
        return config

    def whole_config(self) -> dict[str, Any]:
        """`config`, with all that opening a run needs. Raises UserError if some is missing."""
        config = self.config()
        sizes = ("n_tokens",) if "n_tokens" in config else ("n_source", "n_target")
        needed = {"model": dict, "tokenizers": dict, **dict.fromkeys(sizes, int)}
        for name, kind in needed.items():
            if not isinstance(config.get(name), kind):
                where, todo = str(self.path / CONFIG), "put the original file back"
                raise UserError(f"there is no '{name}' in it", where=where, todo=todo)
        return config

    def tokenizer_text(self, name: str) -> str:
        """The content of a tokeniser file, which must be the one that the model learnt with."""
        hashes = self.config().get("tokenizers", {})
        if name not in hashes:
            raise unknown("tokeniser file", name, hashes, where=str(self.path / CONFIG))
        path = self._file(name)
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != hashes[name]:
            raise UserError(
                "not the tokeniser that this model was trained with (its SHA-256 differs)",
                where=str(path),
                todo="put the original file back; another one would give the ids other meanings",
            )
        return content.decode("utf-8")

    def save_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write the model's tensors, whole or not at all."""
        with atomic_file(self.path / WEIGHTS) as path:
            write_tensors(path, weights)

    def drop_weights(self) -> None:
        """Take the model's tensors away, where they are of no step of this run."""
        with explain_os_errors(self.path / WEIGHTS):
            (self.path / WEIGHTS).unlink(missing_ok=True)

    def weights(self) -> dict[str, Tensor]:
        """The model's tensors by name; tied names share one tensor."""
        if not self.has_weights() and (self.path / CONFIG).exists():
            todo = "the run has not come to its first evaluation: go on with --resume"
            raise UserError(f"there is no {WEIGHTS} yet", where=str(self.path), todo=todo)
        return read_tensors(self._file(WEIGHTS))

    def _file(self, name: str) -> Path:
        """The path of a file of the run, which must be there."""
        if not self.path.is_dir():
            what = (
                "this is a file, and no model" if self.path.exists() else "there is no such folder"
            )
            raise UserError(what, where=str(self.path), todo=_NOT_A_RUN)
        if not (self.path / name).is_file():
            inside = sorted(at.parent.name for at in self.path.glob(f"*/{CONFIG}"))
            todo = f"runs in it: {', '.join(inside)}" if inside else _NOT_A_RUN
            raise UserError(f"not a run: there is no {name}", where=str(self.path), todo=todo)
        return self.path / name

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from training in this folder; leftovers of killed writers go.

        The lock goes with the process, however it ends. Raises UserError if another holds it.
        """
        handle = os.open(self.path, os.O_RDONLY)  # the folder itself: no file to leave behind
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                todo = "wait for it, or stop it first"
                raise UserError(
                    "another process is training here", where=str(self.path), todo=todo
                ) from None
            clear_leftovers(self.path)
            yield
        finally:
            os.close(handle)

    def refuse_busy(self) -> None:
        """Raise UserError if another process is training here, and its files may change."""
        with self.lock():
            pass

    def refuse_occupied(self) -> None:
        """Raise UserError unless a run can begin here: the folder is absent or empty."""
        if is_broken(str(self.path)):
            what = "the name is not valid Unicode, and the report could not tell it"
            raise UserError(what, where=ascii(str(self.path)), todo=_ELSEWHERE)
        if self.path.exists() and not self.path.is_dir():
            raise UserError("there is a file of that name", where=str(self.path), todo=_ELSEWHERE)
        if (self.path / RECIPE).exists() and not (self.path / CONFIG).exists():
            what = f"a {RECIPE} without {CONFIG}: a run that was killed as it began, or no run"
            todo = f"delete it if it was one, or {_ELSEWHERE}"
            raise UserError(what, where=str(self.path), todo=todo)
        if (self.path / RECIPE).exists():
            todo = f"go on with --resume, delete it, or {_ELSEWHERE}"
            raise UserError("there is a run already", where=str(self.path), todo=todo)
        if self.path.is_dir():
            # dot files are leftovers or a file browser's; nothing of a run starts with a dot
            other = sorted(at.name for at in self.path.iterdir() if not at.name.startswith("."))
            if other:
                what = f"the folder is not empty ('{other[0]}') and not a run"
                raise UserError(what, where=str(self.path), todo=_ELSEWHERE)


_NOT_A_RUN = (
    "name the folder that `headway train` wrote, or where these do a Hugging Face folder or .gguf"
)
_ELSEWHERE = "choose another folder with --out"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
