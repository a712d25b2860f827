"""Runs written by every released format load (trap H13)."""

from __future__ import annotations

from pathlib import Path

from headway.checkpoint.run import FORMAT, RunFolder
from headway.checkpoint.steps import newest_checkpoint

FIXTURES = Path(__file__).with_name("fixtures")


def test_the_current_format_has_a_fixture() -> None:
    assert (FIXTURES / f"format-{FORMAT}").is_dir()


def test_format_1_loads() -> None:
    run = RunFolder(FIXTURES / "format-1")
    assert run.recipe() == {"name": "fixture"}
    assert run.config()["kind"] == "seq2seq"
    assert run.tokenizer_text("tokenizer.source.json") == '{"é": 0}\n'
    assert run.tokenizer_text("tokenizer.target.json") == '{"e": 0}\n'
    assert run.metrics.read() == [{"kind": "train", "step": 4, "nll": 0.1}]
    found, passed_over = newest_checkpoint(run.checkpoints)
    assert found is not None
    assert (found.step, passed_over) == (4, [])
    assert found.state() == {"step": 4, "epoch": 1, "best": 0.1, "seen": [3, 1, 2]}
    for weights in (run.weights(), found.weights()):
        assert weights["embedding"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert weights["head"] is weights["embedding"]
        assert weights["half"].tolist() == [0.5, -1.5]
    moments = found.optimizer()
    assert moments["embedding.exp_avg"].tolist() == [[0, 0.125], [0.25, 0.375], [0.5, 0.625]]
    assert moments["step"].item() == 4
