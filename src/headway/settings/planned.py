"""What a plan expects of the run that its recipe makes, so that the report can compare."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from headway.settings.base import Settings

Spread = Annotated[tuple[float, float, float], Field(strict=False)]


class PlannedSettings(Settings):
    """The figures of a plan; where there are three they are the least, the likely, the greatest.

    `memory` are the bytes of tensors on each device at the most. `tokens_per_second` is that of all
    devices together.
    """

    machine: str
    devices: PositiveInt = 1
    tokens: PositiveFloat
    tokens_per_second: Spread
    hours: Spread
    memory: PositiveFloat | None = None
    loss: Spread
