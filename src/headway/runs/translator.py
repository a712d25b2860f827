"""A trained translator: text in, text out, and a look at what it does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from headway.base.errors import UserError
from headway.decode.beam import beam_search
from headway.decode.greedy import greedy
from headway.decode.sampling import sample
from headway.decode.steps import Hypothesis
from headway.evaluate.likelihood import Likelihood
from headway.lens.alignment import Alignment
from headway.runs import alignments, scoring
from headway.runs.sentences import LongText, SourceBatch, each_source
from headway.runs.text_model import TextModel, refuse_one_text

Result = TypeVar("Result")


@dataclass(frozen=True)
class Translation:
    """One translation with its log-probability in nats, and the score that ranks it."""

    text: str
    log_prob: float
    score: float


class Translator(TextModel):
    """Translates, scores and explains with one model. Made by `headway.load` and `headway.train`.

    Computes in float32. Results do not depend on what else is in the list or on its order, but
    for `sample`, whose draws depend on the place in it.
    """

    def __repr__(self) -> str:
        data = self.recipe.data
        kind = self.recipe.model.kind
        return (
            f"Translator({data.source_language} → {data.target_language}, {kind}, "
            f"{self.n_parameters:,} parameters, {self.device})"
        )

    def translate(
        self, texts: Sequence[str], *, beam: int | None = None, progress: bool = False
    ) -> list[str]:
        """The best translation of each text, in order; an empty text gives an empty one.

        `beam` is the number of hypotheses kept side by side; 1 is greedy, None the recipe's. A
        text longer than the model's limit is cut, with a warning that names its line. Raises
        UserError if `beam` is below 1 or `texts` is a single text.
        """
        width = self.recipe.evaluate.beam if beam is None else beam
        if width != 1:
            found = self.n_best(texts, 1, beam=width, progress=progress)
            return [translations[0].text for translations in found]

        def decode(batch: SourceBatch) -> list[str]:
            hypotheses = greedy(
                self.model,
                self._start(batch),
                rows=len(batch.limits),
                limits=batch.limits,
                **self._symbols(),
            )
            return self.tokenizers.target.decode([each.ids for each in hypotheses])

        return self._each(texts, decode, nothing="", progress=progress)

    def n_best(
        self, texts: Sequence[str], n: int, *, beam: int | None = None, progress: bool = False
    ) -> list[list[Translation]]:
        """The best `n` translations of each text, best first; `beam` at least `n`."""
        width = max(n, self.recipe.evaluate.beam) if beam is None else beam

        def search(batch: SourceBatch) -> list[list[Translation]]:
            found = beam_search(
                self.model,
                self._start(batch),
                rows=len(batch.limits),
                limits=batch.limits,
                width=width,
                n_best=n,
                length_penalty=self.recipe.evaluate.length_penalty,
                **self._symbols(),
            )
            return [self._texts(hypotheses) for hypotheses in found]

        nothing = [Translation("", 0.0, 0.0)]
        return self._each(texts, search, nothing=nothing, progress=progress, width=width)

    def sample(
        self,
        texts: Sequence[str],
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[str]:
        """A random translation of each text; the i-th depends on the text, `seed` and i only."""

        def draw(batch: SourceBatch) -> list[str]:
            hypotheses = sample(
                self.model,
                self._start(batch),
                seeds=[_seed(seed, place) for place in batch.places],
                limits=batch.limits,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                **self._symbols(),
            )
            return self.tokenizers.target.decode([each.ids for each in hypotheses])

        return self._each(texts, draw, nothing="", progress=False)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability, in nats, of each target given its source, end symbol included.

        A text longer than the model's limit is cut, with a warning that names its line.
        """
        return [-likelihood.nll for likelihood in self.likelihoods(sources, targets)]

    def likelihoods(self, sources: Sequence[str], targets: Sequence[str]) -> list[Likelihood]:
        """How likely each target is given its source; from plain negative log-likelihood."""
        return scoring.likelihoods(self, sources, targets)

    def attention(
        self,
        source: str,
        target: str | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
    ) -> Alignment:
        """Where each token of the target looks in the source; `target` None: the translation.

        `layer` and `head` count from 0. Without `layer` it is the last but one, in which a
        Transformer's attention is closest to an alignment (Garg et al., 2019), and without `head`
        the mean over the heads. Raises UserError if the model has no attention or no such layer.
        """
        with warnings.catch_warnings():
            if target is None:
                alignments.check(self)
                target = self.translate([source])[0]
                # translating has told of a long source, and a long target is no mistake then
                warnings.simplefilter("ignore", LongText)
            return alignments.alignment(self, source, target, layer=layer, head=head)

    def _symbols(self) -> dict[str, Any]:
        target = self.tokenizers.target
        return {
            "bos": target.bos,
            "eos": target.eos,
            "banned": (target.pad, target.unk, target.bos),
        }

    def _texts(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        texts = self.tokenizers.target.decode([each.ids for each in hypotheses])
        return [
            Translation(text, each.log_prob, each.score)
            for text, each in zip(texts, hypotheses, strict=True)
        ]

    def _start(self, batch: SourceBatch) -> Any:
        return self.model.start(batch.ids, batch.lengths)

    def _each(
        self,
        texts: Sequence[str],
        work: Callable[[SourceBatch], list[Result]],
        *,
        nothing: Result,
        progress: bool,
        width: int = 1,
    ) -> list[Result]:
        refuse_one_text(texts)
        self.model.eval()
        source = self.tokenizers.source
        settings = self.recipe.evaluate
        return each_source(
            texts,
            work,
            encode=source.encode,
            pad=source.pad,
            eos=source.eos,
            max_length=self.recipe.model.max_length,
            max_ratio=settings.max_ratio,
            budget=max(1, settings.batch_tokens // max(1, width)),
            device=self.device,
            nothing=nothing,
            progress=progress,
        )


def _seed(seed: int, place: int) -> int:
    """A seed of its own for a place, unlike that of any other seed and place."""
    if seed < 0:
        raise UserError(f"{seed} is no seed", todo="use 0 or more")
    return int(
        np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> np.uint64(1)
    )
