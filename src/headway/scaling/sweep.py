"""A sweep on the disk: its runs, where they stand, the forecast of a larger one, what came of it.

DIR/sweep.json         what was asked, and the runs that follow from it
DIR/tokenizer.json     learnt once, for all of them
DIR/recipes/NAME.toml  a recipe each
DIR/runs/NAME/         a run each; beside them what they said, in DIR/logs
DIR/forecast.json      of the held-out run, written before it is begun
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import UserError
from headway.base.files import read_json, to_json, write_atomic, write_together
from headway.base.progress import ProgressBar, say
from headway.base.records import Records
from headway.scaling.grid import GridRun, make_grid
from headway.scaling.jobs import Job, work
from headway.scaling.laws import positive
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe
from headway.settings.toml import dump_toml

SWEEP, FORECAST, TOKENIZER, HELD_OUT = (
    "sweep.json",
    "forecast.json",
    "tokenizer.json",
    "held-out",
)
_GIGA = 1e9


@dataclass(frozen=True)
class Sweep:
    """A sweep that was begun."""

    folder: Path
    table: dict[str, Any]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Of the grid, the least compute first: name, budget, params, tokens, flops and more."""
        found: list[dict[str, Any]] = self.table["runs"]
        return found

    @property
    def held_out(self) -> float | None:
        """How many times the greatest budget the held-out run takes; None if there is none."""
        factor: float | None = self.table["held_out"]
        return factor

    @property
    def recipe(self) -> LanguageRecipe:
        """What the runs are variants of, with the tokeniser's file."""
        found = load_recipe(self.table["recipe"], self._here(), where=str(self.folder / SWEEP))
        assert isinstance(found, LanguageRecipe)
        return found

    def job(self, name: str) -> Job:
        """What trains a run."""
        return Job(
            self.folder / "recipes" / f"{name}.toml",
            self.folder / "runs" / name,
            self.folder / "logs" / f"{name}.log",
            tuple(f"{key}={value}" for key, value in self._here().items()),
        )

    def _here(self) -> dict[str, Any]:
        """Where its own tokeniser is, should the folder have been moved."""
        place = (self.folder / TOKENIZER).resolve()
        return {"tokenizer.file": str(place)} if place.exists() else {}

    def state(self, name: str) -> str:
        """ "finished", "begun" or "to do"."""
        job = self.job(name)
        return "finished" if job.finished else "begun" if job.begun else "to do"

    def finished(self) -> list[dict[str, Any]]:
        """The runs of the grid that have ended."""
        return [run for run in self.runs if self.job(run["name"]).finished]


def begin_sweep(
    folder: Path,
    recipe: LanguageRecipe,
    budgets: Sequence[float],
    sizes: Sequence[tuple[float, bool]],
    held_out: float | None,
) -> Sweep:
    """Make the folder of a sweep: learn the tokeniser, write down the runs.

    Raises UserError for recipes that cannot be swept, and where the folder holds another sweep; the
    same sweep is opened.
    """
    refuse_unfit(recipe)
    if held_out is not None:
        positive(held_out=held_out)
    asked: dict[str, Any] = {
        "asked": {
            "recipe": recipe.to_table(),
            "budgets": list(budgets),
            "sizes": [f"{value:g}x" if factor else f"{value:g}" for value, factor in sizes],
        },
        "held_out": held_out,
    }
    if (folder / SWEEP).exists():
        there = open_sweep(folder)
        if any(there.table[key] != value for key, value in asked.items()):
            raise UserError(
                "there is another sweep",
                where=str(folder),
                todo="go on with it by --out alone, or choose another folder",
            )
        return there
    recipe, n_tokens, tokenizer = _with_tokenizer(recipe, folder)
    runs, notices = make_grid(recipe, n_tokens, budgets, sizes)
    for notice in notices:
        say(notice)
    table = {**asked, "recipe": recipe.to_table(), "n_tokens": n_tokens}
    table["runs"] = [facts(run) for run in runs]
    recipes = {f"{run.name}.toml": dump_toml(run.recipe) for run in runs}
    write_together(folder / "recipes", recipes)
    write_together(folder, {**tokenizer, SWEEP: to_json(table)})
    return Sweep(folder, table)


def open_sweep(folder: Path) -> Sweep:
    """The sweep of a folder. Raises UserError if there is none."""
    if not (folder / SWEEP).exists():
        todo = "begin one: headway scaling sweep RECIPE --budgets … --out DIR"
        raise UserError(f"not a sweep: there is no {SWEEP}", where=str(folder), todo=todo)
    return Sweep(folder, read_json(folder / SWEEP))


def refuse_unfit(recipe: LanguageRecipe) -> None:
    """Raise UserError for a recipe of which no sweep can be made."""
    if recipe.model.origin is not None:
        raise UserError("a sweep begins from nothing", where="model.from", todo="leave it out")
    if not (recipe.data.valid or recipe.data.held_out):
        what = "a sweep compares losses on text that is held out, and there is none"
        raise UserError(what, where="data.held_out", todo="set it, 0.02 for instance")


def facts(run: GridRun) -> dict[str, Any]:
    """A run for JSON: its recipe is a file."""
    model = run.recipe["model"]
    return {
        "name": run.name,
        "budget": run.budget,
        "params": run.params,
        "n_layers": model["n_layers"],
        "d_model": model["d_model"],
        "steps": run.steps,
        "tokens": run.tokens,
        "flops": run.flops,
    }


def _with_tokenizer(
    recipe: LanguageRecipe, folder: Path
) -> tuple[LanguageRecipe, int, dict[str, str]]:
    """The recipe with the file of its tokeniser, how many ids that has, and the file if new."""
    from headway.runs.corpus import training_texts
    from headway.runs.text_tokenizers import recipe_tokenizer

    made = recipe_tokenizer(recipe.model, recipe.tokenizer, None, training_texts(recipe.data))
    if recipe.tokenizer.file is not None:
        return recipe, len(made), {}
    place = str((folder / TOKENIZER).resolve())
    named = recipe.tokenizer.model_copy(update={"file": place})
    return recipe.model_copy(update={"tokenizer": named}), len(made), {TOKENIZER: made.to_json()}


def train_runs(
    sweep: Sweep,
    runs: Sequence[dict[str, Any]],
    *,
    processes: int,
    devices: Sequence[str],
    tell: Callable[[dict[str, Any]], None],
) -> None:
    """Train what is not finished; `tell` is given each run as it ends.

    Raises UserError naming those that failed, when all others are done, and Interrupted.
    """
    jobs = {sweep.job(run["name"]): run for run in runs}
    left = [job for job in jobs if not job.finished]
    failed: list[Job] = []
    done = sum(run["flops"] for job, run in jobs.items() if job.finished)
    total = sum(run["flops"] for run in runs)
    with ProgressBar("sweep", round(total / _GIGA), done=round(done / _GIGA), unit="GFLOPs") as bar:

        def ended(job: Job, well: bool) -> None:
            if well:
                tell(jobs[job])
            else:
                failed.append(job)
                say(f"{jobs[job]['name']} failed: {_last_line(job.log)}")

        def waiting(now: Sequence[Job]) -> None:
            so_far = sum(run["flops"] for job, run in jobs.items() if job.finished)
            so_far += sum(jobs[job]["flops"] * _share(job, jobs[job]) for job in now)
            ready = sum(job.finished for job in jobs)
            names = ", ".join(jobs[job]["name"] for job in now)
            text = f"{ready} of {len(jobs)} runs  {names}"
            bar.advance(max(0, round(so_far / _GIGA) - bar.done), text)

        work(left, processes=processes, devices=devices, ended=ended, waiting=waiting)
    if failed:
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed",
            where=", ".join(str(job.log) for job in failed[:3]),
            todo="see there why, and call it again: what is finished stays",
        )


def _share(job: Job, run: dict[str, Any]) -> float:
    """How much of a run is done, by its log."""
    if job.finished:  # it was counted
        return 0.0
    steps = [int(each["step"]) for each in Records(job.run / "metrics.jsonl").read()]
    return min(1.0, max(steps, default=0) / int(run["steps"]))


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def write_forecast(sweep: Sweep, found: dict[str, Any], run: GridRun) -> dict[str, Any]:
    """Write down what is expected of the held-out run, and the recipe by which it will be made."""
    write_atomic(sweep.job(HELD_OUT).recipe, dump_toml(run.recipe))
    table = {**facts(run), **found}
    write_atomic(sweep.folder / FORECAST, to_json(table))
    return table


def read_forecast(sweep: Sweep) -> dict[str, Any] | None:
    """The forecast that was made, None if there is none yet."""
    path = sweep.folder / FORECAST
    if not path.exists():
        return None
    found: dict[str, Any] = read_json(path)
    return found
