"""Guessing what is masked: an encoder trained on documents, as BERT was."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from headway.batches.masked import (
    MaskedBatch,
    MaskedBatches,
    Masking,
    Vocabulary,
    fixed_batches,
)
from headway.batches.sentences import SentenceRows, marked
from headway.checkpoint.run import RunFolder
from headway.data.sentences import split_sentences
from headway.data.tables import PartName
from headway.evaluate.likelihood import Likelihood
from headway.models.build import build_masked
from headway.models.encoder import MaskedLanguageModel
from headway.runs.corpus import (
    CORPUS,
    TESTED,
    EncodedSource,
    corpus_notices,
    corpus_report,
    encode_part,
    refuse_few,
    shares_in,
    training_texts,
    unknown_in,
)
from headway.runs.filler import Filler
from headway.runs.masked_likelihood import masked_likelihood
from headway.runs.tasks.base import Judgement, Material
from headway.runs.tasks.ending import PASSAGES
from headway.runs.tasks.held import HeldTask
from headway.runs.text_tokenizers import recipe_tokenizer, tokenizer_files
from headway.settings.kinds import MaskedRecipe
from headway.training.objectives import PredictMasked

_FIXED = (0, 0)  # the seed of what is judged on: runs of any seed can be compared
Held = Mapping[str, Sequence[MaskedBatch]]
_SPOILS = "perplexity is too low then, since a guess of unknown counts as right"


@dataclass(frozen=True)
class MaskedTask(HeldTask[Filler, Held]):
    """A recipe for documents."""

    recipe: MaskedRecipe

    @classmethod
    def prepare(cls, recipe: MaskedRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokeniser, encode."""
        texts = training_texts(recipe.data)
        made = recipe_tokenizer(recipe.model, recipe.tokenizer, folder, texts, masks=True)
        task = cls(recipe, made)
        train, hashes = encode_part(recipe.data, "train", task.encode, made)
        refuse_few(train, recipe.train.batch_tokens)
        valid, valid_hashes = task._held("valid")
        test, test_hashes = task._held("test")
        material = task._material(train, hashes | valid_hashes | test_hashes)
        told = unknown_in({"train": train, "valid": valid, "test": test}, _SPOILS)
        material = replace(material, notices=material.notices + told)
        hidden = task._hidden("valid", valid), task._hidden("test", test)
        return replace(task, material=material, valid=hidden[0], test=hidden[1])

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return self.recipe.data.length or self.recipe.model.max_length

    @property
    def masking(self) -> Masking:
        """How tokens are hidden."""
        settings = self.recipe.masking
        return Masking(Vocabulary.of(self.tokenizer), settings.rate, settings.whole_words)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids that say where sentences begin; without next sentences a text is one."""
        split = self.recipe.masking.next_sentence
        parts = [split_sentences(text) if split else [text] for text in texts]
        rows = iter(self.tokenizer.encode(list(itertools.chain.from_iterable(parts))))
        return [marked(list(itertools.islice(rows, len(part)))) for part in parts]

    def held(self, name: PartName) -> tuple[Held | None, dict[str, str]]:
        """The first rows of each source, hidden once and for all."""
        found, hashes = self._held(name)
        return self._hidden(name, found), hashes

    def _held(self, name: PartName) -> tuple[dict[str, EncodedSource], dict[str, str]]:
        tokens, data = self._n_rows(name) * self.length, self.recipe.data
        return encode_part(data, name, self.encode, self.tokenizer, tokens=tokens)

    def _hidden(self, name: PartName, found: Mapping[str, EncodedSource]) -> Held | None:
        n, budget = self._n_rows(name), self.recipe.evaluate.batch_tokens
        held = {
            source: fixed_batches(self._rows(each, _FIXED), self.masking, n, budget)
            for source, each in found.items()
        }
        return held or None

    def _n_rows(self, name: PartName) -> int:
        return self.recipe.evaluate.rows * (TESTED if name == "test" else 1)

    def build(self) -> MaskedLanguageModel:
        """The model with its first weights."""
        return build_masked(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: MaskedLanguageModel, device: torch.device) -> Filler:
        """The model with its tokeniser."""
        return Filler(model, self.tokenizer, self.recipe.model, device)

    def judged(self, opened: Filler, part: Held) -> Judgement:
        """How well it guesses what is masked in held-out text; some of it filled in."""
        found = {name: masked_likelihood(opened.model, each) for name, each in part.items()}
        masked = sum((each for each, _ in found.values()), Likelihood())
        follows = sum((each for _, each in found.values()), Likelihood())
        record: dict[str, Any] = {
            "nll": masked.mean,
            "perplexity": masked.perplexity,
            "token_accuracy": masked.token_accuracy,
            "tokens": masked.tokens,
        }
        said = f"perplexity {masked.perplexity:.2f}  right {masked.token_accuracy:.1f} %"
        if follows.tokens:
            record["follows_nll"] = follows.mean
            record["follows_accuracy"] = follows.token_accuracy
            said += f"  next sentence {follows.token_accuracy:.1f} %"
        if len(found) > 1:
            record |= {f"nll_{name}": each.mean for name, (each, _) in found.items()}
        record[PASSAGES] = self._passages(opened, next(iter(part.values())))
        return Judgement(record, -masked.mean, said)

    def _passages(self, opened: Filler, batches: Sequence[MaskedBatch]) -> list[dict[str, str]]:
        """Held-out texts of several lengths: with their masks, filled in, and as they were."""
        rows = [(batch, row) for batch in batches for row in range(len(batch.ids))]
        n = min(self.recipe.evaluate.samples, len(rows))
        places = np.linspace(0, len(rows) - 1, n).astype(int).tolist() if n else []
        found = []
        for batch, row in (rows[place] for place in places):
            was = batch.ids.clone()
            was[batch.chosen] = batch.targets
            texts = {"masked": batch.ids, "filled": opened.best(batch), "was": was}
            real = batch.real[row]
            found.append(
                {
                    name: self.tokenizer.shown(ids[row][real][1:-1].tolist())
                    for name, ids in texts.items()
                }
            )
        return found

    def _rows(self, source: EncodedSource, seed: Sequence[int]) -> SentenceRows:
        pairs = self.recipe.masking.next_sentence
        frame = 3 if pairs else 2
        return SentenceRows(source.documents, self.length - frame, seed=seed, pairs=pairs)

    def _material(self, train: Mapping[str, EncodedSource], hashes: Mapping[str, str]) -> Material:
        recipe, masking = self.recipe, self.masking
        shares = shares_in(recipe.data, train)
        rows = [
            self._rows(source, (recipe.seed, place)) for place, source in enumerate(train.values())
        ]
        # a share is one of the tokens: a source of short rows has more of them
        wanted = np.array(
            [
                share * each.n_rows / source.tokens
                for share, each, source in zip(shares, rows, train.values(), strict=True)
            ]
        )
        batches = MaskedBatches(
            rows,
            (wanted / wanted.sum()).tolist(),
            recipe.train.batch_tokens,
            recipe.seed,
            pad=masking.vocabulary.pad,
            masking=masking,
        )
        settings = recipe.train
        epochs = settings.steps * settings.accumulate / max(1, len(batches.epoch(0)))
        read = epochs * sum(each.n_rows for each in rows) / wanted.sum()
        report = corpus_report(train, shares, float(read))
        return Material(
            batches,
            PredictMasked(recipe.train.label_smoothing),
            tokenizer_files(self.tokenizer),
            hashes,
            tuple(corpus_notices(report)),
            {CORPUS: report},
        )
