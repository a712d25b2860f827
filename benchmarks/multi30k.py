"""What the cases on Multi30k share: files, recipe, and trainers of ours that begin alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from limits import pair_flops, training_limit

from headway.batches.order import Rows
from headway.batches.pairs import PairBatch, PairBatches
from headway.models.build import build
from headway.models.seq2seq import Transformer
from headway.runs.prepare import Prepared, prepare
from headway.settings.kinds import TranslationRecipe
from headway.settings.model import TransformerSettings
from headway.settings.recipe import load_recipe
from headway.training.loop import Trainer
from headway.training.objectives import PredictTarget
from headway.training.state import Window

MISSING = "HEADWAY_DATA names no folder with multi30k/train.en.gz, train.fr.gz, test_2016_flickr.*"
PARTS = {"train": "train", "test": "test_2016_flickr"}
# Wu et al. 2021, the "Tiny" configuration: post-norm, 4 + 4 layers, one embedding for all
MODEL: dict[str, Any] = {
    "kind": "transformer",
    "n_encoder_layers": 4,
    "n_decoder_layers": 4,
    "d_model": 128,
    "d_feed_forward": 256,
    "n_heads": 4,
    "order": "post",
    "dropout": 0.3,
    "tie": "all",
}


def folder() -> Path | None:
    """Where Multi30k lies, or None if it is not there."""
    path = Path(os.environ.get("HEADWAY_DATA", "")) / "multi30k"
    names = [f"{part}.{language}.gz" for part in PARTS.values() for language in ("en", "fr")]
    there = bool(os.environ.get("HEADWAY_DATA")) and all((path / name).is_file() for name in names)
    return path if there else None


def recipe(*, model: dict[str, Any] | None = None, **train: Any) -> TranslationRecipe:
    """English to French with a vocabulary of 10,000; `model` and `train` change their tables.

    Raises FileNotFoundError if Multi30k is not there.
    """
    place = folder()
    if place is None:
        raise FileNotFoundError(MISSING)
    parts = {
        name: {"source": str(place / f"{part}.en.gz"), "target": str(place / f"{part}.fr.gz")}
        for name, part in PARTS.items()
    }
    return load_recipe(
        {
            "data": {"source_language": "en", "target_language": "fr", **parts},
            "tokenizer": {"kind": "bpe", "size": 10_000, "joint": True, "lowercase": True},
            "model": MODEL | (model or {}),
            "train": {"steps": 100_000, "batch_tokens": 4096, "warmup": 1000} | train,
        }
    )


class Setting:
    """A recipe with its data, from which all trainers begin alike."""

    def __init__(self, settings: TranslationRecipe, data: Prepared | None = None) -> None:
        self.settings, self.data = settings, data or prepare(settings)
        target = self.data.tokenizers.target
        self.order = PairBatches(
            self.data.train,
            settings.train.batch_tokens,
            settings.seed,
            pad=target.pad,
            bos=target.bos,
        )

    def batches(self, n: int) -> list[Rows]:
        """The first batches of the first epoch."""
        return self.order.epoch(0)[:n]

    def tensors(self, rows: Rows) -> PairBatch:
        """One of them, padded."""
        return self.order.batch(0, rows)

    def model(self) -> Transformer:
        """Ours with its first weights."""
        tokenizers, settings = self.data.tokenizers, self.settings
        made = build(
            settings.model,
            n_source=len(tokenizers.source),
            n_target=len(tokenizers.target),
            seed=settings.seed,
        )
        assert isinstance(made, Transformer)
        return made

    def limit(self, batches: list[Rows], dtype: str) -> float:
        """Target tokens a second on these batches that the machine allows at most."""
        settings = self.settings.model
        assert isinstance(settings, TransformerSettings)
        made = [self.tensors(rows) for rows in batches]
        pairs = sum(len(batch.source) for batch in made)
        source, target = (
            sum(int(getattr(batch, side).sum()) for batch in made) / pairs
            for side in ("source_real", "target_real")
        )
        flops = pair_flops(settings, len(self.data.tokenizers.target), source, target)
        return training_limit(flops, dtype)

    def trainer(self, dtype: str) -> Trainer:
        """Our trainer, at step 0."""
        return Trainer(
            self.model(),
            self.settings.train.model_copy(update={"dtype": dtype}),
            self.order,
            PredictTarget(self.settings.train.label_smoothing),
            seed=self.settings.seed,
            device=torch.device("cpu"),
        )


def our_steps(trainer: Trainer, batches: list[Rows]) -> tuple[int, float]:
    """Train on these batches; gives their target tokens and the mean loss."""
    trainer.state.window = Window()
    feed = iter([(0, 0, rows) for rows in batches])
    for _ in batches:
        trainer.advance(feed)
    window = trainer.state.window
    return window.tokens, window.objective / window.tokens
