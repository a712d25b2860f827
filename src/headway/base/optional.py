"""Packages that are not part of the core installation."""

from __future__ import annotations

import importlib
from typing import Any

from headway.base.errors import UserError


def optional(module: str, *, extra: str, where: str) -> Any:
    """A module that comes with an extra. Raises UserError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise UserError(
            f"this needs the package '{package}', which is not installed",
            where=where,
            todo=f"install it: pip install 'headway[{extra}]'",
        ) from None
