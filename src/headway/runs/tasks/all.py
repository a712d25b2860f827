"""Which task a recipe is."""

from __future__ import annotations

from typing import Any

from headway.runs.tasks.answers import AnswerTask
from headway.runs.tasks.base import Task
from headway.runs.tasks.labels import LabelTask
from headway.runs.tasks.language import LanguageTask
from headway.runs.tasks.masked import MaskedTask
from headway.runs.tasks.translation import TranslationTask
from headway.settings.kinds import (
    AnswerRecipe,
    LabelRecipe,
    LanguageRecipe,
    MaskedRecipe,
    Recipe,
    TranslationRecipe,
)

_TASKS: dict[type[Recipe], type[Task[Any]]] = {
    TranslationRecipe: TranslationTask,
    LanguageRecipe: LanguageTask,
    MaskedRecipe: MaskedTask,
    LabelRecipe: LabelTask,
    AnswerRecipe: AnswerTask,
}


def task_of(recipe: Recipe) -> type[Task[Any]]:
    """The task of a recipe's kind."""
    return _TASKS[type(recipe)]
