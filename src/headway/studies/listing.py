"""The studies there are."""

from __future__ import annotations

import importlib

from headway.base.errors import unknown
from headway.studies.base import Study

# In the order of the lecture. The modules import torch only when they measure.
NAMES = ("bottleneck", "scores", "scaling-dk", "order", "causal-mask", "residual-norm", "heads")


def find_study(name: str) -> Study:
    """The study of that name. Raises UserError for another, naming the nearest."""
    if name not in NAMES:
        raise unknown("study", name, NAMES)
    study: Study = importlib.import_module(f"headway.studies.{name.replace('-', '_')}").STUDY
    return study


def all_studies() -> list[Study]:
    """All of them, in the order of the lecture."""
    return [find_study(name) for name in NAMES]
