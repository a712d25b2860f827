"""What a run needs of the kind of recipe that it is: its data, model, objective and judgement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

from headway.batches.order import Batches
from headway.checkpoint.run import RunFolder
from headway.training.objectives import Objective

O = TypeVar("O")  # noqa: E741  what a run of this kind opens as


@dataclass(frozen=True)
class Judgement:
    """What an evaluation found: numbers and samples for the log, and a line for people.

    `worth` is the recipe's metric, turned so that more is better.
    """

    record: Mapping[str, Any]
    worth: float
    said: str


@dataclass(frozen=True)
class Material:
    """What a training reads, and what its run is to keep of where that came from.

    `files` are the tokenisers', `hashes` the data's by part, `notices` are for people, `reports`
    for the folder.
    """

    batches: Batches
    objective: Objective
    files: Mapping[str, str]
    hashes: Mapping[str, str]
    notices: tuple[str, ...] = ()
    reports: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC, Generic[O]):
    """A recipe and its tokenisers; and its data, where it was prepared for training."""

    recipe: Any
    material: Material | None

    @classmethod
    @abstractmethod
    def prepare(cls, recipe: Any, folder: RunFolder | None) -> Self:
        """Read the data; the tokenisers are those of `folder`, of a run that goes on.

        Raises UserError for data that cannot be read or do not fit.
        """

    @classmethod
    @abstractmethod
    def read(cls, recipe: Any, folder: RunFolder) -> Self:
        """With what opening a run needs, and no data."""

    @property
    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Sizes that the data made, by their names in config.json."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The model with its first weights."""

    @abstractmethod
    def open(self, model: Any, device: torch.device) -> O:
        """The model at work."""

    @abstractmethod
    def judge(self, opened: O) -> Judgement | None:
        """How good it is on the validation part; None without one."""

    @abstractmethod
    def summarise(self, folder: RunFolder, opened: O) -> None:
        """The end of a run: judge on the test part, write the report."""
