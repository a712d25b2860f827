"""What a run is, in a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.checkpoint.run import RECIPE, RunFolder
from headway.checkpoint.steps import Checkpoint, newest_checkpoint
from headway.settings.recipe import Recipe, load_recipe


def describe(path: Path) -> dict[str, str]:
    """Name -> value, for people. Raises UserError if `path` is no run."""
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
        "recipe": recipe.description,
        "languages": f"{recipe.data.source_language} → {recipe.data.target_language}",
        "model": _model(config),
        "vocabulary": f"{config['n_source']:,} source, {config['n_target']:,} target ids",
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
            facts[kind] = "  ".join(
                f"{name} {record[name]:.2f}"
                for name in ("bleu", "chrf", "exact_match", "token_accuracy", "perplexity")
            )
    return facts


def _best(recipe: Recipe, checkpoint: Checkpoint, records: list[dict[str, Any]]) -> str:
    if recipe.data.valid is None and not recipe.data.held_out:
        which = "the mean of the last saves" if recipe.train.average > 1 else "those at the end"
        return f"{which}: there is no validation part to choose by"
    state = checkpoint.state()
    if state["best"] is None:
        return "none yet"
    best = next((each for each in reversed(records) if each.get("best")), None)
    if best is not None and best["kind"] == "average":
        return f"the mean of the last {best['of']} saves, at step {best['step']:,}"
    return f"of step {state['best_step']:,}"


def _model(config: dict[str, dict[str, object]]) -> str:
    settings = {key: value for key, value in config["model"].items() if value is not None}
    kind = settings.pop("kind", "")
    return f"{kind}: {', '.join(f'{key} {value}' for key, value in settings.items())}"
