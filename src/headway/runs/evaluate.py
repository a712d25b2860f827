"""Judging a translator on pairs: what it writes, and how likely it finds the references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headway.base.showing import Table
from headway.data.pairs import Pairs
from headway.evaluate.likelihood import Likelihood
from headway.evaluate.translation import TranslationScores, score_translations
from headway.runs.sentences import Progress
from headway.settings.kinds import Foreign, TranslationRecipe


@dataclass(frozen=True)
class Evaluation:
    """Scores of the translations, likelihood of the references, and the translations."""

    scores: TranslationScores
    likelihood: Likelihood
    pairs: Pairs
    translations: list[str]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            **self.scores.to_table(),
            "nll": self.likelihood.mean,
            "perplexity": self.likelihood.perplexity,
            "token_accuracy": self.likelihood.token_accuracy,
        }

    def _repr_html_(self) -> str:
        likely = self.likelihood
        head = ["perplexity", "token accuracy, %"]
        table = Table(head, [[f"{likely.perplexity:.3f}", likely.token_accuracy]])
        return f"{self.scores._repr_html_()}{table._repr_html_()}"

    def samples(self, n: int) -> list[dict[str, str]]:
        """Some translations with source and reference, spread evenly over the pairs."""
        step = max(1, len(self.pairs) // max(1, n))
        return [
            {
                "source": self.pairs.sources[index],
                "reference": self.pairs.targets[index],
                "translation": self.translations[index],
            }
            for index in range(0, len(self.pairs), step)[:n]
        ]


class Judged(Protocol):
    """What is judged: a `Translator`, which offers this itself as `evaluate`."""

    @property
    def recipe(self) -> TranslationRecipe | Foreign:
        """Says whether case counts."""

    def translate(
        self, texts: Sequence[str], *, beam: int | None = None, progress: Progress = False
    ) -> list[str]:
        """One translation a text."""

    def likelihoods(self, sources: Sequence[str], targets: Sequence[str]) -> list[Likelihood]:
        """How likely each target is."""


def evaluate_pairs(
    translator: Judged, pairs: Pairs, *, beam: int | None = None, progress: bool = False
) -> Evaluation:
    """Translate the sources with `beam` (None: the recipe's) and score them."""
    translations = translator.translate(pairs.sources, beam=beam, progress=progress)
    return Evaluation(
        score_translations(
            pairs.sources,
            translations,
            pairs.targets,
            lowercase=translator.recipe.evaluate.lowercase,
        ),
        sum(translator.likelihoods(pairs.sources, pairs.targets), Likelihood()),
        pairs,
        translations,
    )
