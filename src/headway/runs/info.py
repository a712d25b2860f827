"""What a run is, in a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.checkpoint.exchange.folders import is_foreign
from headway.checkpoint.run import RECIPE, RunFolder
from headway.checkpoint.steps import Checkpoint, newest_checkpoint
from headway.runs.model_info import describe_model, settings_in_words
from headway.settings.kinds import Recipe, TranslationRecipe
from headway.settings.recipe import load_recipe

_TOLD = (
    *("bleu", "chrf", "exact_match", "token_accuracy", "perplexity", "bits_per_byte"),
    *("accuracy", "f1", "matthews", "pearson", "spearman"),
)


def describe(path: Path) -> dict[str, str]:
    """Name -> value, for people: of a run, a Hugging Face folder or a .gguf file.

    Raises UserError if `path` is none of these.
    """
    if path.suffix == ".gguf" or is_foreign(path):
        return describe_model(path)
    return describe_run(path)


def describe_run(path: Path) -> dict[str, str]:
    """What a run is, and how far it has come. Raises UserError if `path` is none."""
    folder = RunFolder(path)
    config = folder.whole_config()
    recipe = load_recipe(folder.recipe(), where=str(folder.path / RECIPE))
    records = folder.metrics.read()
    if folder.has_weights():
        folder.weights()  # raises if they are damaged
    checkpoint, broken = newest_checkpoint(folder.checkpoints)
    last = {record["kind"]: record for record in records}
    step = last["train"]["step"] if "train" in last else 0
    if checkpoint is not None:  # a stop saves between two log lines
        step = checkpoint.step
    facts = {
        **({"recipe": recipe.description} if recipe.description else {}),
        **_data(recipe),
        "model": settings_in_words(config["model"]),
        "vocabulary": _vocabulary(config),
        "trained": f"{step:,} of {recipe.train.steps:,} steps in {recipe.train.dtype}",
    }
    if "parameters" in config:  # runs of the first days have none
        facts["parameters"] = f"{config['parameters']:,}"
    if checkpoint is not None:
        facts["checkpoint"] = str(checkpoint.path)
        facts["best weights"] = _best(recipe, checkpoint, records)
    if broken:
        facts["broken"] = "; ".join(broken)
    for kind in ("valid", "test"):
        if kind in last:
            record = last[kind]
            found = [f"{name} {record[name]:.2f}" for name in _TOLD if name in record]
            at_the_end = kind == "test" and record.get("part") == "valid"
            facts["valid, best weights" if at_the_end else kind] = "  ".join(found)
    return facts


def _data(recipe: Recipe) -> dict[str, str]:
    if isinstance(recipe, TranslationRecipe):
        return {"languages": f"{recipe.data.source_language} → {recipe.data.target_language}"}
    table = recipe.data.to_table()
    sources = table["train"] if table["kind"] == "documents" else ()
    return {"data": ": ".join(filter(None, (table["kind"], ", ".join(sources))))}


def _vocabulary(config: dict[str, Any]) -> str:
    if "n_tokens" in config:
        return f"{config['n_tokens']:,} ids"
    return f"{config['n_source']:,} source, {config['n_target']:,} target ids"


def _best(recipe: Recipe, checkpoint: Checkpoint, records: list[dict[str, Any]]) -> str:
    data = recipe.data.to_table()
    if not data.get("valid") and not data["held_out"]:
        which = "the mean of the last saves" if recipe.train.average > 1 else "those at the end"
        return f"{which}: there is no validation part to choose by"
    state = checkpoint.state()
    if state["best"] is None:
        return "none yet"
    best = next((each for each in reversed(records) if each.get("best")), None)
    if best is not None and best["kind"] == "average":
        return f"the mean of the last {best['of']} saves, at step {best['step']:,}"
    return f"of step {state['best_step']:,}"
