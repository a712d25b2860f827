"""Tasks of one tokeniser that are judged on held-out parts of their own data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.data.tables import PartName
from headway.runs.tasks.base import Judgement, Material, O, Task
from headway.runs.tasks.ending import end_run
from headway.runs.text_tokenizers import run_tokenizer
from headway.tokens.text import TextTokenizer

P = TypeVar("P")  # what a held-out part is


@dataclass(frozen=True)
class HeldTask(Task[O], Generic[O, P]):
    """A recipe with its tokeniser, and perhaps its data."""

    recipe: Any
    tokenizer: TextTokenizer
    material: Material | None = None
    valid: P | None = None
    test: P | None = None

    @classmethod
    def read(cls, recipe: Any, folder: RunFolder) -> Self:
        """The tokeniser of a run."""
        return cls(recipe, run_tokenizer(folder))

    @property
    def sizes(self) -> Mapping[str, int]:
        """Of the vocabulary."""
        return {"n_tokens": len(self.tokenizer)}

    @abstractmethod
    def held(self, name: PartName) -> tuple[P | None, dict[str, str]]:
        """The part "valid" or "test" of the data, and the hashes of its texts; None without one."""

    @abstractmethod
    def judged(self, opened: O, part: P) -> Judgement:
        """How good a model is on a part."""

    def judge(self, opened: O) -> Judgement | None:
        """How good it is on the validation part."""
        return None if self.valid is None else self.judged(opened, self.valid)

    def summarise(self, folder: RunFolder, opened: O) -> None:
        """Judge on the test part, or on the validation part if there is none."""
        name, part = ("valid", self.valid) if self.test is None else ("test", self.test)
        found = None if part is None else self.judged(opened, part)
        plan = getattr(self.recipe, "plan", None)
        end_run(folder, found, part=name, facts=self.facts(opened), plan=plan)

    def facts(self, opened: Any) -> dict[str, str]:
        """What the report tells of the model."""
        n = sum(weight.numel() for weight in opened.model.parameters())
        return {"parameters": f"{n:,}"}

    def evaluate(self, opened: O) -> tuple[PartName, Judgement, dict[str, str]]:
        """The part that a run is reported on, read anew; how good the model is on it; its hashes.

        Raises UserError if the recipe has neither a test nor a validation part.
        """
        for name in ("test", "valid"):
            part, hashes = self.held(name)
            if part is not None:
                return name, self.judged(opened, part), hashes
        todo = "train with data.valid, data.test or data.held_out"
        raise UserError("the recipe has no part to judge on", where="data.test", todo=todo)
