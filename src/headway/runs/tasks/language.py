"""Continuing text: a decoder trained on documents end to end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from headway.batches.packed import PackedBatches, Packing
from headway.checkpoint.run import RunFolder
from headway.data.tables import PartName
from headway.evaluate.likelihood import Likelihood
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
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
from headway.runs.generated import Sampling
from headway.runs.language_model import LanguageModel
from headway.runs.tasks.base import Judgement, Material
from headway.runs.tasks.ending import PASSAGES
from headway.runs.tasks.held import HeldTask
from headway.runs.text_likelihood import text_likelihood
from headway.runs.text_tokenizers import recipe_tokenizer, tokenizer_files
from headway.settings.kinds import LanguageRecipe
from headway.training.objectives import PredictNext

Held = Mapping[str, EncodedSource]
_SPOILS = "bits per byte and perplexity are too low then, since a guess of unknown counts as right"


@dataclass(frozen=True)
class LanguageTask(HeldTask[LanguageModel, Held]):
    """A recipe for documents."""

    recipe: LanguageRecipe

    @classmethod
    def prepare(cls, recipe: LanguageRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokeniser, encode."""
        texts = training_texts(recipe.data)
        made = recipe_tokenizer(recipe.model, recipe.tokenizer, folder, texts)
        train, hashes = encode_part(recipe.data, "train", made.documents, made)
        refuse_few(train, recipe.train.batch_tokens)
        task = cls(recipe, made)
        valid, valid_hashes = task.held("valid")
        test, test_hashes = task.held("test")
        material = task._material(train, hashes | valid_hashes | test_hashes)
        parts = {"train": train, "valid": valid or {}, "test": test or {}}
        material = replace(material, notices=material.notices + unknown_in(parts, _SPOILS))
        return replace(task, material=material, valid=valid, test=test)

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return self.recipe.data.length or self.recipe.model.max_length

    def held(self, name: PartName) -> tuple[Held | None, dict[str, str]]:
        """The first documents of each source, as many as fill the rows that are wanted."""
        rows = self.recipe.evaluate.rows * (TESTED if name == "test" else 1)
        encode, tokens = self.tokenizer.documents, rows * self.length
        found, hashes = encode_part(self.recipe.data, name, encode, self.tokenizer, tokens=tokens)
        return found or None, hashes

    def build(self) -> Decoder:
        """The model with its first weights."""
        return build_decoder(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: Decoder, device: torch.device) -> LanguageModel:
        """The model with its tokeniser."""
        return LanguageModel(model, self.tokenizer, self.recipe.model, device)

    def judged(self, opened: LanguageModel, part: Held) -> Judgement:
        """How likely held-out text is, by source; and some of it continued."""
        found = {
            name: text_likelihood(
                opened.model,
                source.documents,
                length=self.length,
                batch_tokens=self.recipe.evaluate.batch_tokens,
            )
            for name, source in part.items()
        }
        whole = sum(found.values(), Likelihood())
        bits = {
            name: each.nll / math.log(2) / max(1, part[name].n_bytes)
            for name, each in found.items()
        }
        n_bytes = sum(source.n_bytes for source in part.values())
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
        record[PASSAGES] = self._passages(opened, part)
        said = f"perplexity {whole.perplexity:.2f}  bits per byte {record['bits_per_byte']:.3f}"
        if len(found) > 1:
            said += "".join(f"  {name} {value:.3f}" for name, value in bits.items())
        return Judgement(record, -whole.mean, said)

    def _passages(self, opened: LanguageModel, part: Held) -> list[dict[str, str]]:
        """Beginnings of held-out documents, continued greedily; half the context has room for one.

        A text of half a letter can be more tokens than it was cut from, so that these are counted.
        """
        settings, documents = self.recipe.evaluate, next(iter(part.values())).documents
        most = self.recipe.model.max_length // 2
        texts = np.flatnonzero(documents.lengths > 2)  # with more than a first and a last id
        n = min(settings.samples, len(texts))
        if not n or not most:
            return []
        places = texts[np.linspace(0, len(texts) - 1, n).astype(int)]
        longest = min(settings.prompt_tokens, most)
        rows = [
            documents.ids[start + 1 : min(start + 1 + longest, end - 1)]
            for start, end in zip(*(documents.starts[places + k] for k in (0, 1)), strict=True)
        ]
        prompts = self.tokenizer.decode([row.tolist() for row in rows])
        sampling = Sampling(max_new_tokens=settings.new_tokens, temperature=0.0)
        asked = [row[:most] for row in self.tokenizer.prompts(prompts)]
        made = opened.generate_ids(asked, sampling)
        return [
            {"beginning": prompt, "continued": each.text}
            for prompt, each in zip(prompts, made, strict=True)
        ]

    def _material(self, train: Mapping[str, EncodedSource], hashes: Mapping[str, str]) -> Material:
        recipe = self.recipe
        shares = shares_in(recipe.data, train)
        batches = PackedBatches(
            [
                Packing(source.documents, self.length, seed=(recipe.seed, place))
                for place, source in enumerate(train.values())
            ],
            shares,
            recipe.train.batch_tokens,
            recipe.seed,
            pad=self.tokenizer.roles.pad or 0,
        )
        settings = recipe.train
        a_batch = settings.batch_tokens // self.length * self.length
        report = corpus_report(train, shares, settings.steps * settings.accumulate * a_batch)
        return Material(
            batches,
            PredictNext(recipe.train.label_smoothing),
            tokenizer_files(self.tokenizer),
            hashes,
            tuple(corpus_notices(report)),
            {CORPUS: report},
        )
