"""Judging a run that is no translator's on the held-out part of its own data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.runtime import pick_device
from headway.checkpoint.exchange.folders import is_foreign
from headway.checkpoint.run import RunFolder
from headway.data.tables import PartName
from headway.runs.load import open_weights, stored_recipe
from headway.runs.tasks.all import task_of
from headway.runs.tasks.held import HeldTask


@dataclass(frozen=True)
class RunScores:
    """What was found on a part of a run's data; `data` are the hashes of its texts."""

    part: PartName
    said: str
    record: Mapping[str, Any]
    settings: Mapping[str, Any]
    data: Mapping[str, str]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "part": self.part,
            **self.record,
            "settings": dict(self.settings),
            "data": dict(self.data),
        }


def judge_run(path: str | Path, *, device: str = "auto") -> RunScores | None:
    """How good a run is on the part of its data that it is judged on, read anew.

    None for a translator, which is judged on pairs. Data that are no longer those of the training
    are warned of. Raises UserError where the run or its data cannot be read.
    """
    place = Path(path)
    if is_foreign(place):
        return None
    folder = RunFolder(place)
    recipe = stored_recipe(folder)
    task = task_of(recipe).read(recipe, folder)
    if not isinstance(task, HeldTask):
        return None
    part, found, hashes = task.evaluate(open_weights(folder, task, pick_device(device)))
    before = folder.data_hashes()
    changed = [name for name, digest in hashes.items() if before.get(name) != digest]
    if changed:
        told = f"the {' and '.join(changed)} data are not those that this run was judged on before"
        warnings.warn(f"{folder.path}: {told}", stacklevel=2)
    return RunScores(part, found.said, found.record, recipe.evaluate.to_table(), hashes)
