"""A trained translator: text in, text out, and a look at what it does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from headway.base.errors import UserError
from headway.base.showing import Table
from headway.data.pairs import Pairs
from headway.decode.beam import beam_search
from headway.decode.greedy import greedy
from headway.decode.sampling import sample
from headway.decode.steps import Hypothesis
from headway.evaluate.likelihood import Likelihood
from headway.lens.alignment import Alignment
from headway.runs import alignments, scoring
from headway.runs.evaluate import Evaluation, evaluate_pairs
from headway.runs.sentences import LongText, Progress, SourceBatch, each_source
from headway.runs.text_model import TextModel, refuse_one_text
from headway.runs.translation import NOTHING, Translation, ranked, translations
from headway.settings.kinds import TranslationRecipe

Result = TypeVar("Result")
_TOLD = ("n_", "d_", "cell", "score", "positions")  # of the model's settings, to know it by


class Translator(TextModel):
    """Translates, scores and explains with one model. Made by `headway.load` and `headway.train`.

    Computes in float32. Results do not depend on what else is in the list or on its order, but
    for `sample`, whose draws depend on the place in it.

    A long stream is translated a list at a time; `first` is then the number of a list's first
    text, counted from 1, so that warnings and draws are those of the whole.
    """

    what = "a translator"
    use = "translate {} < FILE"  # what the command line does with it

    def __repr__(self) -> str:
        kind = self.recipe.model.kind
        return (
            f"Translator({self._languages}{kind}, {self.n_parameters:,} parameters, {self.device})"
        )

    def _repr_html_(self) -> str:
        recipe, source, target = self.recipe, self.tokenizers.source, self.tokenizers.target
        ids = f"{len(source):,}" + ("" if source is target else f" and {len(target):,}")
        settings = recipe.model.model_dump(exclude_none=True)
        told = [f"{key} {value}" for key, value in settings.items() if key.startswith(_TOLD)]
        facts = {
            "translates": self._languages.removesuffix(", "),
            "model": recipe.model.kind,
            "settings": ", ".join(told),
            "parameters": f"{self.n_parameters:,}",
            "tokeniser": f"{ids} ids",
            "trained": "elsewhere",
            "device": str(self.device),
        }
        if isinstance(recipe, TranslationRecipe):
            facts["tokeniser"] = f"{recipe.tokenizer.kind}, {ids} ids"
            facts["trained"] = f"{recipe.train.steps:,} steps by {recipe.train.optimizer}"
        return Table(["Translator", ""], list(facts.items()))._repr_html_()

    @property
    def _languages(self) -> str:
        if not isinstance(self.recipe, TranslationRecipe):
            return ""
        return f"{self.recipe.data.source_language} → {self.recipe.data.target_language}, "

    def translate(
        self, texts: Sequence[str], *, beam: int | None = None, progress: Progress = False
    ) -> list[str]:
        """The best translation of each text, in order; an empty text gives an empty one.

        `beam` is the number of hypotheses kept side by side; 1 is greedy, None the recipe's. A
        text longer than the model's limit is cut, with a warning that names its line. Raises
        UserError if `beam` is below 1 or `texts` is a single text.
        """
        return [best.text for (best,) in self.n_best(texts, 1, beam=beam, progress=progress)]

    def n_best(
        self,
        texts: Sequence[str],
        n: int,
        *,
        beam: int | None = None,
        progress: Progress = False,
        first: int = 1,
    ) -> list[list[Translation]]:
        """The best `n` translations of each text, best first; `beam` at least `n`."""
        width = max(n, self.recipe.evaluate.beam) if beam is None else beam
        settings: dict[str, Any] = {"progress": progress, "first": first}
        if width == n == 1:
            return self._each(texts, self._greedy, nothing=[NOTHING], **settings)

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

        return self._each(texts, search, nothing=[NOTHING], width=width, **settings)

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
        drawn = self.draws(texts, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        return [each.text for each in drawn]

    def draws(
        self,
        texts: Sequence[str],
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        progress: Progress = False,
        first: int = 1,
    ) -> list[Translation]:
        """The same as `sample`, each with the log-probability that the model itself gives it."""

        def draw(batch: SourceBatch) -> list[Translation]:
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
            return self._texts(hypotheses)

        return self._each(texts, draw, nothing=NOTHING, progress=progress, first=first)

    def evaluate(
        self, sources: Sequence[str], targets: Sequence[str], *, beam: int | None = None
    ) -> Evaluation:
        """Translate the sources and score that against the targets, also by length.

        `beam` as in `translate`. Raises UserError if the lists do not go together.
        """
        refuse_one_text(sources)
        refuse_one_text(targets)
        pairs = Pairs(list(sources), list(targets), "given")
        return evaluate_pairs(self, pairs, beam=beam)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability, in nats, of each target given its source, end symbol included.

        A text longer than the model's limit is cut, with a warning that names its line.
        """
        return [-likelihood.nll for likelihood in self.likelihoods(sources, targets)]

    def likelihoods(self, sources: Sequence[str], targets: Sequence[str]) -> list[Likelihood]:
        """How likely each target is given its source; from plain negative log-likelihood."""
        return [each.likelihood for each in self.score_tokens(sources, targets)]

    def score_tokens(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        tell: Callable[[int], object] | None = None,
        first: int = 1,
    ) -> list[scoring.TokenScores]:
        """The log-probability of every token of each target given its source and what precedes.

        `tell` is told of each batch how many pairs are done.
        """
        return scoring.score_tokens(self, sources, targets, tell=tell, first=first)

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
        own = target is None
        if target is None:
            alignments.check(self)
            target = self.translate([source])[0]
        found = self.alignments([source], [target], layer=layer, head=head, quiet=own)
        return found[0]

    def alignments(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        layer: int | None = None,
        head: int | None = None,
        quiet: bool = False,
    ) -> list[Alignment]:
        """`attention` of many pairs, in batches; `quiet`: nothing is said of texts that are cut."""
        with warnings.catch_warnings():
            if quiet:
                warnings.simplefilter("ignore", LongText)
            return alignments.alignments(self, sources, targets, layer=layer, head=head)

    def _symbols(self) -> dict[str, Any]:
        target = self.tokenizers.target
        return {
            "bos": target.bos,
            "eos": target.eos,
            "banned": (target.pad, target.unk, target.bos),
        }

    def _texts(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        return translations(hypotheses, self.tokenizers.target)

    def _start(self, batch: SourceBatch) -> Any:
        return self.model.start(batch.ids, batch.lengths)

    def _greedy(self, batch: SourceBatch) -> list[list[Translation]]:
        hypotheses = greedy(
            self.model,
            self._start(batch),
            rows=len(batch.limits),
            limits=batch.limits,
            **self._symbols(),
        )
        penalty = self.recipe.evaluate.length_penalty
        return [[each] for each in self._texts([ranked(each, penalty) for each in hypotheses])]

    def _each(
        self,
        texts: Sequence[str],
        work: Callable[[SourceBatch], list[Result]],
        *,
        nothing: Result,
        progress: Progress,
        first: int,
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
            first=first,
        )


def _seed(seed: int, place: int) -> int:
    """A seed of its own for a place, unlike that of any other seed and place."""
    if seed < 0:
        raise UserError(f"{seed} is no seed", todo="use 0 or more")
    return int(
        np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> np.uint64(1)
    )
