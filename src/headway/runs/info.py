"""What a run is, in a few lines."""

from __future__ import annotations

from pathlib import Path

from headway.checkpoint.run import RECIPE, RunFolder
from headway.checkpoint.steps import newest_checkpoint
from headway.settings.recipe import load_recipe


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
        facts["best weights"] = f"of step {checkpoint.state()['best_step']:,}"
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


def _model(config: dict[str, dict[str, object]]) -> str:
    model = config["model"]
    return ", ".join(f"{key} {value}" for key, value in model.items() if value is not None)
