"""Continuing text: a decoder trained on documents end to end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from headway.batches.packed import PackedBatches, Packing, shares_of
from headway.checkpoint.run import RunFolder
from headway.evaluate.likelihood import Likelihood
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.runs.corpus import (
    CORPUS,
    EncodedSource,
    corpus_notices,
    corpus_report,
    encode_part,
    learnt_tokenizer,
    refuse_few,
)
from headway.runs.language_model import LanguageModel, Sampling
from headway.runs.tasks.base import Judgement, Material, Task
from headway.runs.tasks.ending import end_run
from headway.runs.text_likelihood import text_likelihood
from headway.runs.text_tokenizers import origin_tokenizer, run_tokenizer, tokenizer_files
from headway.settings.kinds import LanguageRecipe
from headway.tokens.text import TextTokenizer
from headway.training.objectives import PredictNext

TESTED = 10  # times the rows of an evaluation are read for the test at the end


@dataclass(frozen=True)
class LanguageTask(Task[LanguageModel]):
    """A recipe for documents, with its tokeniser and perhaps its data."""

    recipe: LanguageRecipe
    tokenizer: TextTokenizer
    material: Material | None = None
    valid: Mapping[str, EncodedSource] | None = None
    test: Mapping[str, EncodedSource] | None = None

    @classmethod
    def prepare(cls, recipe: LanguageRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokeniser, encode."""
        made = run_tokenizer(folder) if folder is not None else _learnt(recipe)
        train, hashes = encode_part(recipe.data, "train", made.documents)
        refuse_few(train, recipe.train.batch_tokens)
        wanted = recipe.evaluate.rows * _length(recipe)
        valid, valid_hashes = encode_part(recipe.data, "valid", made.documents, tokens=wanted)
        test, test_hashes = encode_part(recipe.data, "test", made.documents, tokens=TESTED * wanted)
        material = _material(recipe, made, train, hashes | valid_hashes | test_hashes)
        return cls(recipe, made, material, valid, test or valid)

    @classmethod
    def read(cls, recipe: LanguageRecipe, folder: RunFolder) -> Self:
        """The tokeniser of a run."""
        return cls(recipe, run_tokenizer(folder))

    @property
    def sizes(self) -> Mapping[str, int]:
        """Of the vocabulary."""
        return {"n_tokens": len(self.tokenizer)}

    def build(self) -> Decoder:
        """The model with its first weights."""
        return build_decoder(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: Decoder, device: torch.device) -> LanguageModel:
        """The model with its tokeniser."""
        return LanguageModel(model, self.tokenizer, self.recipe.model, device)

    def judge(self, opened: LanguageModel) -> Judgement | None:
        """How likely held-out text is, by source; and some of it continued."""
        return self._judged(opened, self.valid) if self.valid else None

    def summarise(self, folder: RunFolder, opened: LanguageModel) -> None:
        """Judge on the test part, or on the validation part if there is none."""
        found = self._judged(opened, self.test) if self.test else None
        part = "test" if self.test is not self.valid else "valid"
        parameters = sum(weight.numel() for weight in opened.model.parameters())
        end_run(folder, found, part=part, facts={"parameters": f"{parameters:,}"})

    def _judged(self, opened: LanguageModel, sources: Mapping[str, EncodedSource]) -> Judgement:
        found = {
            name: text_likelihood(
                opened.model,
                source.documents,
                length=_length(self.recipe),
                batch_tokens=self.recipe.evaluate.batch_tokens,
            )
            for name, source in sources.items()
        }
        whole = sum(found.values(), Likelihood())
        bits = {
            name: each.nll / math.log(2) / max(1, sources[name].n_bytes)
            for name, each in found.items()
        }
        n_bytes = sum(source.n_bytes for source in sources.values())
        record: dict[str, Any] = {
            "nll": whole.mean,
            "perplexity": whole.perplexity,
            "bits_per_byte": whole.nll / math.log(2) / max(1, n_bytes),
            "token_accuracy": whole.token_accuracy,
            "tokens": whole.tokens,
        }
        if len(found) > 1:
            record |= {f"nll_{name}": each.mean for name, each in found.items()}
            record |= {f"bits_per_byte_{name}": value for name, value in bits.items()}
        record["passages"] = self._passages(opened, sources)
        said = f"perplexity {whole.perplexity:.2f}  bits per byte {record['bits_per_byte']:.3f}"
        if len(found) > 1:
            said += "".join(f"  {name} {value:.3f}" for name, value in bits.items())
        return Judgement(record, -whole.mean, said)

    def _passages(
        self, opened: LanguageModel, sources: Mapping[str, EncodedSource]
    ) -> list[dict[str, str]]:
        """Beginnings of held-out documents, continued greedily."""
        settings, documents = self.recipe.evaluate, next(iter(sources.values())).documents
        n = min(settings.samples, len(documents.lengths))
        if not n:
            return []
        places = np.linspace(0, len(documents.lengths) - 1, n).astype(int)
        rows = [
            documents.ids[documents.starts[place] :][1 : settings.prompt_tokens + 1]
            for place in places
        ]
        prompts = self.tokenizer.decode([row.tolist() for row in rows])
        sampling = Sampling(max_new_tokens=settings.new_tokens, temperature=0.0)
        made = opened.generate(prompts, sampling)
        return [
            {"beginning": prompt, "continued": each.text}
            for prompt, each in zip(prompts, made, strict=True)
        ]


def _length(recipe: LanguageRecipe) -> int:
    return recipe.data.length or recipe.model.max_length


def _learnt(recipe: LanguageRecipe) -> TextTokenizer:
    if recipe.model.origin is not None:
        return origin_tokenizer(recipe.model.origin)
    return learnt_tokenizer(recipe.tokenizer, recipe.data, masks=False)


def _material(
    recipe: LanguageRecipe,
    tokenizer: TextTokenizer,
    train: Mapping[str, EncodedSource],
    hashes: Mapping[str, str],
) -> Material:
    weights = {name: part.weight for name, part in recipe.data.train.items()}
    tokens = {name: source.tokens for name, source in train.items()}
    shares = shares_of(tokens, weights, recipe.data.temperature)
    batches = PackedBatches(
        [
            Packing(source.documents, _length(recipe), seed=(recipe.seed, place))
            for place, source in enumerate(train.values())
        ],
        shares,
        recipe.train.batch_tokens,
        recipe.seed,
        pad=tokenizer.roles.pad or 0,
    )
    read = recipe.train.steps * recipe.train.accumulate * recipe.train.batch_tokens
    passes = [share * read / each for share, each in zip(shares, tokens.values(), strict=True)]
    report = corpus_report(train, shares, passes)
    return Material(
        batches,
        PredictNext(recipe.train.label_smoothing),
        tokenizer_files(tokenizer),
        hashes,
        tuple(corpus_notices(report)),
        {CORPUS: report},
    )
