"""Headway trains, evaluates, inspects and plans Transformers on the machine you have.

    import headway

    headway.train("cldr/transformer", out="runs/fr-en")
    translator = headway.load("runs/fr-en")
    translator.translate(["3 mars 2021"], beam=4)

Names are looked up when they are first used, so that `import headway` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.base.errors import UserError
    from headway.runs.compare import compare
    from headway.runs.export import export
    from headway.runs.generated import Sampling
    from headway.runs.open_model import load
    from headway.runs.prompting import prompt
    from headway.runs.train import train

__all__ = ["Sampling", "UserError", "compare", "export", "load", "prompt", "train"]
__version__ = "0.1.0"

_HOMES = {
    "UserError": "headway.base.errors",
    "compare": "headway.runs.compare",
    "Sampling": "headway.runs.generated",
    "export": "headway.runs.export",
    "load": "headway.runs.open_model",
    "prompt": "headway.runs.prompting",
    "train": "headway.runs.train",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'headway' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
