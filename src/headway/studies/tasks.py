"""What studies train on, as keys of a recipe: small tasks that a CPU learns in a minute."""

from __future__ import annotations

from collections.abc import Sequence

from headway.studies.base import Plain

KINDS = ("date", "span", "spelled", "country")


def cldr(
    *,
    lines: int,
    max_words: int,
    test_lines: int = 600,
    test_words: int = 0,
    kinds: Sequence[str] = KINDS,
) -> Plain:
    """Keys of a recipe for a small task: a few kinds of expression, one right answer each.

    `test_words` longer than `max_words` tests on lengths that the training has not seen.
    """
    parts = {"train": (lines, max_words), "test": (test_lines, test_words or max_words)}
    parts["valid"] = (50, max_words)  # nothing is chosen by it
    found: Plain = {}
    for part, (n, words) in parts.items():
        found[f"data.{part}.lines"] = n
        found[f"data.{part}.max_words"] = words
        found[f"data.{part}.kinds"] = list(kinds)
    return found


def quick_cldr(*, max_words: int, test_lines: int = 150, test_words: int = 0) -> Plain:
    """Keys of a recipe for a task that takes some seconds: numbers in words, and lists of them."""
    return cldr(
        lines=6_000,
        max_words=max_words,
        test_lines=test_lines,
        test_words=test_words,
        kinds=["spelled"],
    )


def quick_schedule(steps: int, *, every: int = 20) -> Plain:
    """Keys of a recipe for a training of some seconds."""
    return schedule(steps, batch_tokens=384, rate=7e-3, every=every)


def schedule(steps: int, *, batch_tokens: int, rate: float, every: int = 20) -> Plain:
    """Keys of a recipe for a short training by Muon; float32, so that machines agree."""
    return {
        "train.steps": steps,
        "train.batch_tokens": batch_tokens,
        "train.learning_rate": rate,
        "train.warmup": min(100, steps // 4),
        "train.optimizer": "muon",
        "train.dtype": "float32",
        "train.label_smoothing": 0.0,  # so that the least NLL is 0
        "train.log_every": every,
        "evaluate.beam": 1,
    }


def transformer(layers: int, width: int, heads: int) -> Plain:
    """Keys of a recipe for a small Transformer, pre-norm."""
    return {
        "model.n_encoder_layers": layers,
        "model.n_decoder_layers": layers,
        "model.d_model": width,
        "model.d_feed_forward": 2 * width,
        "model.n_heads": heads,
        "model.order": "pre",
    }
