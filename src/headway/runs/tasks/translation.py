"""Translating: an encoder–decoder trained on pairs of sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch

from headway.batches.pairs import PairBatches
from headway.checkpoint.run import RunFolder
from headway.models.build import build
from headway.models.encoder_decoder import EncoderDecoder
from headway.runs.evaluate import evaluate_pairs
from headway.runs.prepare import DATA, Prepared, prepare
from headway.runs.summary import summarise
from headway.runs.tasks.base import Judgement, Material, Task
from headway.runs.tokenizers import Tokenizers
from headway.runs.translator import Translator
from headway.settings.kinds import TranslationRecipe
from headway.training.objectives import PredictTarget

_SCORES = ("bleu", "chrf", "exact_match", "token_accuracy")


@dataclass(frozen=True)
class TranslationTask(Task[Translator]):
    """A recipe for pairs, with its tokenisers and perhaps its data."""

    recipe: TranslationRecipe
    tokenizers: Tokenizers
    material: Material | None = None
    prepared: Prepared | None = None

    @classmethod
    def prepare(cls, recipe: TranslationRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokenisers, encode."""
        found = prepare(recipe, Tokenizers.read(folder) if folder is not None else None)
        return cls(recipe, found.tokenizers, _material(recipe, found), found)

    @classmethod
    def read(cls, recipe: TranslationRecipe, folder: RunFolder) -> Self:
        """The tokenisers of a run."""
        return cls(recipe, Tokenizers.read(folder))

    @property
    def sizes(self) -> Mapping[str, int]:
        """Of both vocabularies."""
        return {"n_source": len(self.tokenizers.source), "n_target": len(self.tokenizers.target)}

    def build(self) -> EncoderDecoder[Any, Any]:
        """The model with its first weights."""
        return build(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: EncoderDecoder[Any, Any], device: torch.device) -> Translator:
        """The model with its tokenisers."""
        return Translator(model, self.tokenizers, self.recipe, device)

    def judge(self, opened: Translator) -> Judgement | None:
        """Translate the validation part greedily."""
        if self.prepared is None or self.prepared.valid is None:
            return None
        found = evaluate_pairs(
            opened, self.prepared.valid.first(self.recipe.evaluate.lines), beam=1
        )
        scores = found.to_table()
        values = {name: scores[name] for name in _SCORES}
        metric = self.recipe.evaluate.metric
        shown = "  ".join(f"{name} {number:.1f}" for name, number in values.items())
        return Judgement(
            {
                "nll": scores["nll"],
                "perplexity": scores["perplexity"],
                **values,
                "samples": found.samples(self.recipe.evaluate.samples),
            },
            -scores["nll"] if metric == "loss" else scores[metric],
            f"perplexity {scores['perplexity']:.2f}  {shown}",
        )

    def summarise(self, folder: RunFolder, opened: Translator) -> None:
        """Judge on the test part, or on the validation part if there is none."""
        assert self.prepared is not None, "a run that ends has read its data"
        valid, test = self.prepared.valid, self.prepared.test
        part = "test" if test is not None else "valid"
        summarise(folder, opened, valid if test is None else test, part=part)


def _material(recipe: TranslationRecipe, found: Prepared) -> Material:
    target = found.tokenizers.target
    return Material(
        PairBatches(
            found.train,
            recipe.train.batch_tokens,
            recipe.seed,
            pad=target.pad,
            bos=target.bos,
            redraw=found.redraw.pairs if found.redraw else None,
        ),
        PredictTarget(recipe.train.label_smoothing),
        found.tokenizers.files(),
        found.hashes,
        found.notices,
        {DATA: found.report.to_table()},
    )
