"""What tests of sweeps share: a recipe, and a small program that takes no time to train.

It writes runs in the place of `headway train`, which end as a law has them.
"""

from __future__ import annotations

import sys

import pytest

from headway.scaling.jobs import Job
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

TRAINER = """
import json, pathlib, sys, time
run = pathlib.Path(sys.argv[1])
sweep, name = run.parents[1], run.name
known = {each["name"]: each for each in json.loads((sweep / "sweep.json").read_text())["runs"]}
here = known.get(name) or json.loads((sweep / "forecast.json").read_text())
print("trains", name, flush=True)
if (sweep / "fails").exists() and name in (sweep / "fails").read_text():
    sys.exit("it broke")
run.mkdir(parents=True, exist_ok=True)
(run / "config.json").write_text(json.dumps({"parameters": here["params"]}))
(run / "data.json").write_text(json.dumps({"text": {"tokens": 1e9}}))
time.sleep(float((sweep / "slow").read_text()) if (sweep / "slow").exists() else 0)
N, D = here["params"], here["tokens"]
loss = LAW * (1 + 0.002 * ((7 * N + 3 * D) % 5 - 2))
told = {"step": here["steps"], "tokens": D, "seconds": 2.0, "tokens_per_s": D / 2, "nll": loss}
lines = [json.dumps({"kind": kind, **told}) for kind in ("train", "valid")]
(run / "metrics.jsonl").write_text("\\n".join(lines) + "\\n")
(run / "report.html").write_text("")
""".replace("LAW", "(1.5 + 40 / N**0.4 + 60 / D**0.38)")


@pytest.fixture
def recipe() -> LanguageRecipe:
    """A toy of which a sweep can be made."""
    model = {"d_model": 32, "d_feed_forward": 64, "n_heads": 4, "n_layers": 2, "max_length": 32}
    keys = {f"model.{key}": value for key, value in model.items()}
    keys |= {"data.length": 32, "train.batch_tokens": 256, "train.optimizer": "adamw"}
    keys |= {"data.train.stdlib.corpus": "builtin:pydoc", "data.train.stdlib.lines": 12}
    found = load_recipe("lm/stdlib", {**keys, "tokenizer.size": 260})
    assert isinstance(found, LanguageRecipe)
    return found


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> str:
    """The stand-in of `headway train`, which is in its place now."""

    def command(job: Job, device: str) -> list[str]:
        return [sys.executable, "-c", TRAINER, str(job.run)]

    monkeypatch.setattr(Job, "command", command)
    return TRAINER
