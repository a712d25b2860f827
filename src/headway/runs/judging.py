"""Judging a run that is no translator's on the held-out part of its own data."""

from __future__ import annotations

from pathlib import Path

from headway.base.runtime import pick_device
from headway.checkpoint.exchange.folders import is_foreign
from headway.checkpoint.run import RunFolder
from headway.data.tables import PartName
from headway.runs.load import open_weights, stored_recipe
from headway.runs.tasks.all import task_of
from headway.runs.tasks.base import Judgement
from headway.runs.tasks.held import HeldTask


def judge_run(path: str | Path, *, device: str = "auto") -> tuple[PartName, Judgement] | None:
    """The part of the data that a run is judged on, read anew, and what is found on it.

    None for a translator, which is judged on pairs. Raises UserError where the run or its data
    cannot be read.
    """
    place = Path(path)
    if is_foreign(place):
        return None
    folder = RunFolder(place)
    recipe = stored_recipe(folder)
    task = task_of(recipe).read(recipe, folder)
    if not isinstance(task, HeldTask):
        return None
    return task.evaluate(open_weights(folder, task, pick_device(device)))
