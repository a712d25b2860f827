"""Which task a recipe is."""

from __future__ import annotations

from typing import Any

from headway.runs.tasks.base import Task
from headway.runs.tasks.language import LanguageTask
from headway.runs.tasks.translation import TranslationTask
from headway.settings.kinds import LanguageRecipe, Recipe, TranslationRecipe

_TASKS: dict[type[Recipe], type[Task[Any]]] = {
    TranslationRecipe: TranslationTask,
    LanguageRecipe: LanguageTask,
}


def task_of(recipe: Recipe) -> type[Task[Any]]:
    """The task of a recipe's kind."""
    return _TASKS[type(recipe)]
