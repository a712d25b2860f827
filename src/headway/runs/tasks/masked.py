"""Guessing what is masked: an encoder trained on documents, as BERT was."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from headway.base.errors import UserError
from headway.batches.masked import (
    MaskedBatch,
    MaskedBatches,
    Masking,
    Vocabulary,
    fixed_batches,
)
from headway.batches.packed import shares_of
from headway.batches.sentences import SentenceRows, marked
from headway.checkpoint.run import RunFolder
from headway.data.sentences import split_sentences
from headway.data.tables import PartName
from headway.evaluate.likelihood import Likelihood
from headway.models.build import build_masked
from headway.models.encoder import MaskedLanguageModel
from headway.runs.corpus import (
    CORPUS,
    Encode,
    EncodedSource,
    corpus_notices,
    corpus_report,
    encode_part,
    learnt_tokenizer,
    refuse_few,
)
from headway.runs.filler import Filler
from headway.runs.masked_likelihood import masked_likelihood
from headway.runs.tasks.base import Judgement, Material, Task
from headway.runs.tasks.ending import PASSAGES, end_run
from headway.runs.text_tokenizers import origin_tokenizer, run_tokenizer, tokenizer_files
from headway.settings.kinds import MaskedRecipe
from headway.tokens.text import TextTokenizer
from headway.training.objectives import PredictMasked

TESTED = 10  # times the rows of an evaluation are read for the test at the end
_FIXED = (0, 0)  # the seed of what is judged on: runs of any seed can be compared
Held = Mapping[str, Sequence[MaskedBatch]]


@dataclass(frozen=True)
class MaskedTask(Task[Filler]):
    """A recipe for documents, with its tokeniser and perhaps its data."""

    recipe: MaskedRecipe
    tokenizer: TextTokenizer
    material: Material | None = None
    valid: Held | None = None
    test: Held | None = None

    @classmethod
    def prepare(cls, recipe: MaskedRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokeniser, encode."""
        if folder is not None:
            made = run_tokenizer(folder)
        elif recipe.model.origin is not None:
            made = origin_tokenizer(recipe.model.origin)
        else:
            made = learnt_tokenizer(recipe.tokenizer, recipe.data, masks=True)
        encode = _encoding(made, sentences=recipe.masking.next_sentence)
        train, hashes = encode_part(recipe.data, "train", encode)
        refuse_few(train, recipe.train.batch_tokens)
        masking = _masking(recipe, made)
        n = recipe.evaluate.rows
        valid, valid_hashes = _held(recipe, "valid", encode, masking, n)
        test, test_hashes = _held(recipe, "test", encode, masking, TESTED * n)
        material = _material(recipe, made, train, hashes | valid_hashes | test_hashes, masking)
        return cls(recipe, made, material, valid, test or valid)

    @classmethod
    def read(cls, recipe: MaskedRecipe, folder: RunFolder) -> Self:
        """The tokeniser of a run."""
        return cls(recipe, run_tokenizer(folder))

    @property
    def sizes(self) -> Mapping[str, int]:
        """Of the vocabulary."""
        return {"n_tokens": len(self.tokenizer)}

    def build(self) -> MaskedLanguageModel:
        """The model with its first weights."""
        return build_masked(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: MaskedLanguageModel, device: torch.device) -> Filler:
        """The model with its tokeniser."""
        return Filler(model, self.tokenizer, self.recipe.model, device)

    def judge(self, opened: Filler) -> Judgement | None:
        """How well it guesses what is masked in held-out text; some of it filled in."""
        return self._judged(opened, self.valid) if self.valid else None

    def summarise(self, folder: RunFolder, opened: Filler) -> None:
        """Judge on the test part, or on the validation part if there is none."""
        found = self._judged(opened, self.test) if self.test else None
        part = "test" if self.test is not self.valid else "valid"
        parameters = sum(weight.numel() for weight in opened.model.parameters())
        end_run(folder, found, part=part, facts={"parameters": f"{parameters:,}"})

    def _judged(self, opened: Filler, held: Held) -> Judgement:
        found = {name: masked_likelihood(opened.model, each) for name, each in held.items()}
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
        record[PASSAGES] = self._passages(opened, next(iter(held.values())))
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


def _length(recipe: MaskedRecipe) -> int:
    return recipe.data.length or recipe.model.max_length


def _encoding(tokenizer: TextTokenizer, *, sentences: bool) -> Encode:
    """From texts to ids that say where sentences begin; without `sentences` a text is one."""

    def encode(texts: Sequence[str]) -> list[list[int]]:
        parts = [split_sentences(text) if sentences else [text] for text in texts]
        rows = iter(tokenizer.encode(list(itertools.chain.from_iterable(parts))))
        return [marked(list(itertools.islice(rows, len(part)))) for part in parts]

    return encode


def _rows(recipe: MaskedRecipe, source: EncodedSource, seed: Sequence[int]) -> SentenceRows:
    pairs = recipe.masking.next_sentence
    frame = 3 if pairs else 2
    return SentenceRows(source.documents, _length(recipe) - frame, seed=seed, pairs=pairs)


def _held(
    recipe: MaskedRecipe, name: PartName, encode: Encode, masking: Masking, n: int
) -> tuple[Held, dict[str, str]]:
    """Up to `n` rows of each source of a part, hidden once and for all; the hashes of its texts."""
    found, hashes = encode_part(recipe.data, name, encode, tokens=n * _length(recipe))
    budget = recipe.evaluate.batch_tokens
    held = {
        source: fixed_batches(_rows(recipe, each, _FIXED), masking, n, budget)
        for source, each in found.items()
    }
    return held, hashes


def _masking(recipe: MaskedRecipe, tokenizer: TextTokenizer) -> Masking:
    settings = recipe.masking
    return Masking(Vocabulary.of(tokenizer), settings.rate, settings.whole_words)


def _material(
    recipe: MaskedRecipe,
    tokenizer: TextTokenizer,
    train: Mapping[str, EncodedSource],
    hashes: Mapping[str, str],
    masking: Masking,
) -> Material:
    tokens = {name: source.tokens for name, source in train.items()}
    for name, source in train.items():
        if not source.tokens:
            raise UserError("the tokeniser finds nothing in it", where=f"data.train.{name}")
    weights = {name: part.weight for name, part in recipe.data.train.items()}
    shares = shares_of(tokens, weights, recipe.data.temperature)
    rows = [
        _rows(recipe, source, (recipe.seed, place)) for place, source in enumerate(train.values())
    ]
    # a share is one of the tokens: a source of short rows has more of them
    wanted = np.array(
        [
            share * each.n_rows / n
            for share, each, n in zip(shares, rows, tokens.values(), strict=True)
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
    read = recipe.train.steps * recipe.train.accumulate * recipe.train.batch_tokens
    passes = [share * read / each for share, each in zip(shares, tokens.values(), strict=True)]
    report = corpus_report(train, shares, passes)
    return Material(
        batches,
        PredictMasked(recipe.train.label_smoothing),
        tokenizer_files(tokenizer),
        hashes,
        tuple(corpus_notices(report)),
        {CORPUS: report},
    )
