"""Small trainings on the built-in corpus, which most studies compare."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.batches.pairs import PairBatches
from headway.data.pairs import Pairs
from headway.evaluate.likelihood import Likelihood
from headway.evaluate.translation import score_translations
from headway.models.build import build
from headway.models.encoder_decoder import EncoderDecoder
from headway.runs.prepare import Prepared, prepare
from headway.runs.translator import Translator
from headway.settings.kinds import TranslationRecipe
from headway.settings.recipe import load_translation
from headway.studies.base import Plain
from headway.tokens.training import SmallVocabulary
from headway.training.loop import Hook, NotFinite, Trainer
from headway.training.objectives import PredictTarget
from headway.training.state import TrainState

Make = Callable[[TranslationRecipe, int, int], EncoderDecoder[Any, Any]]
"""A network for a recipe and the sizes of its vocabularies."""


@dataclass
class Trained:
    """A trained model and how it came about.

    `losses` are (step, NLL in nats a token over the steps since the last), `diverged` the step at
    which a loss or gradient was not finite, if one was. `tokens_per_s` are target tokens in the
    fastest of the log's windows: a busy machine only makes the others slower.
    """

    translator: Translator
    test: Pairs
    losses: list[tuple[int, float]] = field(default_factory=list)
    tokens_per_s: float = 0.0
    diverged: int | None = None

    @property
    def last_loss(self) -> float | None:
        """The NLL of the last steps; None if the training broke off."""
        return None if self.diverged is not None or not self.losses else self.losses[-1][1]


def recipe_of(settings: Mapping[str, Any], seed: int) -> TranslationRecipe:
    """The recipe of a study's setting: a shipped name and the keys that differ."""
    return load_translation(settings["recipe"], {**settings["set"], "seed": seed})


def plain_build(
    recipe: TranslationRecipe, n_source: int, n_target: int
) -> EncoderDecoder[Any, Any]:
    """The network that the recipe says."""
    return build(recipe.model, n_source=n_source, n_target=n_target, seed=recipe.seed)


def trainer_for(recipe: TranslationRecipe, make: Make = plain_build) -> Trainer:
    """A trainer at its first step, on the CPU."""
    prepared = prepared_for(recipe)
    target = prepared.tokenizers.target
    return Trainer(
        make(recipe, len(prepared.tokenizers.source), len(target)),
        recipe.train,
        PairBatches(
            prepared.train, recipe.train.batch_tokens, recipe.seed, pad=target.pad, bos=target.bos
        ),
        PredictTarget(recipe.train.label_smoothing),
        seed=recipe.seed,
        device=torch.device("cpu"),
    )


def train_small(
    recipe: TranslationRecipe, make: Make = plain_build, *, may_diverge: bool = False
) -> Trained:
    """Train without a run folder; one that `may_diverge` ends there, others raise NotFinite."""
    prepared, trainer = prepared_for(recipe), trainer_for(recipe, make)
    assert prepared.test is not None, "the recipes of studies have a test part"
    model: Any = trainer.model
    translator = Translator(model, prepared.tokenizers, recipe, trainer.device)
    trained = Trained(translator, prepared.test)

    def note(state: TrainState) -> None:
        window = state.window
        if window.tokens:
            trained.losses.append((state.step, window.nll / window.tokens))
            rate = window.tokens / max(window.seconds, 1e-9)
            trained.tokens_per_s = max(trained.tokens_per_s, rate)

    try:
        trainer.run(Hook(recipe.train.log_every, note), [], leave=lambda _state: None)
    except NotFinite:
        if not may_diverge:
            raise
        trained.diverged = trainer.state.step + 1
    return trained


def prepared_for(recipe: TranslationRecipe) -> Prepared:
    """The data of a recipe, made once for all trainings that share them."""
    table = recipe.to_table()
    shared = {
        "data": table["data"],
        "tokenizer": table["tokenizer"],
        "model": {"kind": "recurrent", "max_length": recipe.model.max_length},
        "train": {"steps": 1, "batch_tokens": recipe.train.batch_tokens},
    }
    return _prepared(json.dumps(shared, sort_keys=True))


@functools.lru_cache(maxsize=1)
def _prepared(table: str) -> Prepared:
    with warnings.catch_warnings():  # few kinds of expression have few words, as they should
        warnings.simplefilter("ignore", SmallVocabulary)
        return prepare(load_translation(json.loads(table)))


def judge(trained: Trained, edges: Sequence[int]) -> Plain:
    """How good a model is on the test part, over all and by words of the source.

    Exact match and chrF of greedy translations in percent; NLL in nats a token and token accuracy
    in percent with the reference before it. All None for a training that diverged.
    """
    if trained.diverged is not None:
        names = ("nll", "token_accuracy", "exact_match", "chrf")
        return {**dict.fromkeys(names), "by_length": [], "losses": trained.losses}
    sources, targets = trained.test.sources, trained.test.targets
    made = trained.translator.translate(sources, beam=1)
    scores = score_translations(sources, made, targets, edges=edges)
    likelihood = sum(trained.translator.likelihoods(sources, targets), Likelihood())
    return {
        "nll": likelihood.mean,
        "token_accuracy": likelihood.token_accuracy,
        "exact_match": scores.exact_match,
        "chrf": scores.chrf,
        "by_length": [
            {
                "low": part.low,
                "high": part.high,
                "n": part.n,
                "exact_match": part.exact_match,
                "chrf": part.chrf,
            }
            for part in scores.by_length
        ],
        "losses": trained.losses,
    }
