"""Each study in the list: it loads without torch, and its settings are recipes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import headway.studies
from headway.base.errors import UserError
from headway.studies.listing import NAMES, all_studies, find_study

SHARED = {"__init__", "base", "listing", "run", "tasks", "training"}


def test_every_file_is_a_study_that_is_listed() -> None:
    files = {file.stem for file in Path(headway.studies.__path__[0]).glob("*.py")}
    assert files - SHARED == {name.replace("-", "_") for name in NAMES}
    assert [study.name for study in all_studies()] == list(NAMES)
    for study in all_studies():
        assert study.claim.endswith(".")


def test_an_unknown_study_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'scaling-dk'"):
        find_study("scaling")


def test_the_list_needs_no_torch() -> None:
    code = (
        "import sys; from headway.studies.listing import all_studies; "
        "[s.settings(True) for s in all_studies()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_recipes(name: str) -> None:
    from headway.studies.training import recipe_of

    study = find_study(name)
    quick, full = study.settings(True), study.settings(False)
    assert set(quick) != set(full) or list(quick.values()) != list(full.values())
    for settings in (quick, full):
        recipes = [recipe_of(each, 5) for each in settings.values() if "recipe" in each]
        assert len(recipes) > 1
        for recipe in recipes:
            assert recipe.seed == 5
            assert recipe.train.dtype == "float32"
            assert recipe.data.test is not None
        # what is compared sees the same data and the same number of tokens
        assert len({(r.data.model_dump_json(), r.train.model_dump_json()) for r in recipes}) == 1


def test_the_page_of_studies_has_all() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "explanation/studies.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(NAMES)
    told = re.findall(r"^(?:\*\*([\w-]+)\.\*\* |### ([\w-]+)$)", page, re.MULTILINE)
    assert [bold or measured for bold, measured in told] == list(NAMES)
