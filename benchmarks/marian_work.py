"""The contenders of decode-marian: one model of ours, and its translations by each of them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from ctranslate import CTranslate
from multi30k import Setting, our_steps, recipe
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GenerationConfig, MarianMTModel

from headway.base.files import read_json, to_json
from headway.base.runtime import keep_pages
from headway.batches.pairs import EncodedSide
from headway.decode.beam import beam_search
from headway.decode.steps import Hypothesis
from headway.models.build import build
from headway.models.seq2seq import Transformer
from headway.settings.model import TransformerSettings

STEPS, BATCH_TOKENS = 300, 1024  # of the training
WIDTH, LIMIT = 5, 64  # of the beam; tokens of a translation, the end included


class Batch(NamedTuple):
    """Some sources, padded, and which sentences they are."""

    ids: Tensor  # (B, S)
    real: Tensor  # (B, S)
    places: list[int]


class Given:
    """The model and the sentences that all contenders are given, as `train` left them."""

    def __init__(self, place: Path) -> None:
        facts = read_json(place / "facts.json")
        self.symbols: dict[str, int] = facts["symbols"]
        self.sources = EncodedSide.of(facts["sources"])
        settings = TransformerSettings.model_validate(facts["model"])
        weights = load_file(place / "weights.safetensors")
        model = build(settings, n_source=facts["n_ids"], n_target=facts["n_ids"])
        assert isinstance(model, Transformer)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(weights[name])
        self.place, self.settings, self.model = place, settings, model.eval()
        self.banned = [self.symbols[name] for name in ("pad", "unk", "bos")]

    def batches(self, size: int, n: int) -> list[Batch]:
        """`n` sentences, spread over the test set, in batches of like lengths."""
        lengths = self.sources.lengths
        chosen = np.linspace(0, len(lengths) - 1, min(n, len(lengths))).astype(np.int64)
        chosen = chosen[np.argsort(lengths[chosen], kind="stable")]
        cuts = [chosen[start : start + size] for start in range(0, len(chosen), size)]
        return [Batch(*self.sources.pad(rows, self.symbols["pad"]), rows.tolist()) for rows in cuts]

    def ctranslate(self) -> CTranslate:
        """CTranslate2 with the model's weights."""
        with tempfile.TemporaryDirectory(dir=self.place) as folder:
            return CTranslate(self.model, self.settings, self.symbols, Path(folder))


def train(place: Path) -> None:
    """Train for a moment; leave weights and encoded sources in `place`."""
    keep_pages()
    settings = recipe(
        model={"dropout": 0.1},
        optimizer="muon",
        learning_rate=2e-3,
        warmup=100,
        schedule="constant",
        batch_tokens=BATCH_TOKENS,
    )
    setting = Setting(settings)
    trainer, data = setting.trainer("float32"), setting.data
    for rows in (setting.batches(STEPS) * STEPS)[:STEPS]:
        _, loss = our_steps(trainer, [rows])
    print(f"  trained for {STEPS} steps to a loss of {loss:.2f}", file=sys.stderr)
    tokenizer = data.tokenizers.source
    assert data.test is not None
    facts = {
        "model": settings.model.model_dump(mode="json"),
        "n_ids": len(tokenizer),
        "symbols": {name: getattr(tokenizer, name) for name in ("pad", "unk", "bos", "eos")},
        "sources": tokenizer.encode(data.test.sources),
    }
    (place / "facts.json").write_text(to_json(facts), encoding="utf-8")
    weights = {name: weight.detach() for name, weight in trainer.model.named_parameters()}
    save_file(weights, place / "weights.safetensors")


@torch.no_grad()
def our_translations(given: Given, batches: list[Batch]) -> dict[int, Hypothesis]:
    """The best hypothesis of each sentence, by our beam search."""
    found = {}
    for batch in batches:
        state = given.model.start(batch.ids, batch.real.sum(dim=1))
        hypotheses = beam_search(
            given.model,
            state,
            rows=len(batch.places),
            bos=given.symbols["bos"],
            eos=given.symbols["eos"],
            limits=[LIMIT] * len(batch.places),
            width=WIDTH,
            length_penalty=0.0,
            banned=given.banned,
        )
        found |= {place: best[0] for place, best in zip(batch.places, hypotheses, strict=True)}
    return found


def their_translations(
    given: Given, model: MarianMTModel, batches: list[Batch]
) -> dict[int, list[int]]:
    """The ids of the best hypothesis of each sentence, by transformers."""
    eos = given.symbols["eos"]
    settings = GenerationConfig(
        num_beams=WIDTH,
        max_new_tokens=LIMIT,
        do_sample=False,
        length_penalty=0.0,
        early_stopping=False,
        suppress_tokens=given.banned,
        decoder_start_token_id=given.symbols["bos"],
        pad_token_id=given.symbols["pad"],
        bos_token_id=given.symbols["bos"],
        eos_token_id=eos,
    )
    found = {}
    for batch in batches:
        output = model.generate(
            input_ids=batch.ids, attention_mask=batch.real.long(), generation_config=settings
        )
        for place, row in zip(batch.places, output[:, 1:].tolist(), strict=True):
            found[place] = row[: row.index(eos)] if eos in row else row
    return found


def its_translations(given: Given, model: CTranslate, batches: list[Batch]) -> dict[int, list[int]]:
    """The same by CTranslate2."""
    found = {}
    for batch in batches:
        sources = [row[real].tolist() for row, real in zip(batch.ids, batch.real, strict=True)]
        best = model.translate(sources, width=WIDTH, limit=LIMIT)
        found |= dict(zip(batch.places, best, strict=True))
    return found
