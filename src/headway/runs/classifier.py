"""A classifier at work: what label a text, or a pair of texts, has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.batches.by_length import FramedRows
from headway.batches.pairs import batch_rows
from headway.models.encoder import Classifier
from headway.runs.framing import framed_rows
from headway.runs.sentences import tell_of_cut
from headway.runs.text_model import refuse_one_text
from headway.settings.model import EncoderSettings
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits

BATCH_TOKENS = 4096
_TOGETHER = 1024  # texts


class Label(NamedTuple):
    """The likeliest class of a text, and how likely the model finds it."""

    name: str
    probability: float


class TextClassifier:
    """An encoder with a head and its tokeniser; `labels` are its classes, None for a regression.

    `longest` is the most ids of a row that are read. `pairs` says whether it judges pairs of texts,
    None if that is not known. Raises UserError if the tokeniser has ids that the model has no row
    for.
    """

    what = "a classifier"
    use = "classify {} < FILE"  # what the command line does with it

    def __init__(
        self,
        model: Classifier,
        tokenizer: TextTokenizer,
        settings: EncoderSettings,
        labels: Sequence[str] | None,
        *,
        longest: int,
        device: torch.device,
        pairs: bool | None = None,
    ) -> None:
        check_fits(tokenizer, model.encoder.n_tokens, tokenizer.where)
        self.model, self.tokenizer, self.settings = model.to(device).eval(), tokenizer, settings
        self.labels = None if labels is None else list(labels)
        self.longest, self.device, self.pairs = longest, device, pairs

    def __repr__(self) -> str:
        if self.labels is None:
            return "TextClassifier(a number)"
        return f"TextClassifier({', '.join(self.labels)})"

    def classify(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        numbers: Sequence[int] | None = None,
    ) -> list[Label]:
        """The label of each text, or of each pair with the text of `seconds` in its place.

        One warning tells which texts were cut to what the model reads, by their `numbers` if they
        are given. Raises UserError if the model gives numbers, and if it judges the other: single
        texts or pairs.
        """
        if self.labels is None:
            raise UserError("this model gives numbers, not labels", todo="use estimate")
        found = self.probabilities(texts, seconds, numbers=numbers)
        best = found.argmax(dim=-1).tolist()
        return [
            Label(self.labels[place], float(row[place]))
            for place, row in zip(best, found, strict=True)
        ]

    def probabilities(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        numbers: Sequence[int] | None = None,
    ) -> Tensor:
        """How likely each class is: (N, classes) float32, in the order of `labels`."""
        if self.labels is None:
            raise UserError("this model gives numbers, not labels", todo="use estimate")
        return self.outputs(self.encode(texts, seconds, numbers=numbers)).softmax(dim=-1)

    def estimate(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        numbers: Sequence[int] | None = None,
    ) -> list[float]:
        """The number of each text, or pair. Raises UserError if the model has classes."""
        if self.labels is not None:
            raise UserError("this model gives labels, not numbers", todo="use classify")
        rows = self.encode(texts, seconds, numbers=numbers)
        found: list[float] = self.outputs(rows)[:, 0].tolist()
        return found

    def encode(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None,
        *,
        numbers: Sequence[int] | None = None,
    ) -> FramedRows:
        """The rows that the model reads; what is longer is cut, as `classify` tells."""
        refuse_one_text(texts)
        if seconds is not None:
            refuse_one_text(seconds)
            if len(texts) != len(seconds):
                raise UserError(f"{len(texts)} texts but {len(seconds)} second ones")
        if self.pairs is not None and self.pairs != (seconds is not None):
            what = "pairs of texts" if self.pairs else "single texts"
            raise UserError(f"this model was trained on {what}", todo=f"give it {what}")
        longest, n_segments = self.longest, self.settings.n_segments
        rows = framed_rows(self.tokenizer, texts, seconds, longest=longest, n_segments=n_segments)
        self._tell_of_cut(rows, texts, seconds, numbers or range(1, len(texts) + 1))
        return rows

    def _tell_of_cut(
        self,
        rows: FramedRows,
        texts: Sequence[str],
        seconds: Sequence[str] | None,
        numbers: Sequence[int],
    ) -> None:
        """Warn of what was cut: rows that are as long as can be are framed once more to know."""
        full = np.flatnonzero(rows.ids.lengths >= self.longest).tolist()
        long: list[tuple[int, int]] = []
        for begin in range(0, len(full), _TOGETHER):
            some = full[begin : begin + _TOGETHER]
            others = None if seconds is None else [seconds[place] for place in some]
            whole = self.tokenizer.framed([texts[place] for place in some], others)
            found = zip(some, (len(ids) for ids, _ in whole), strict=True)
            long += [(numbers[place], length) for place, length in found if length > self.longest]
        if long:
            tell_of_cut(long, self.longest, what="text")

    @torch.inference_mode()
    def outputs(self, rows: FramedRows, *, batch_tokens: int = BATCH_TOKENS) -> Tensor:
        """What the head gives for each row: (N, classes or 1) float32 on the CPU."""
        lengths = rows.ids.lengths
        found = torch.zeros(len(rows), self.model.head.out_features)
        for some in batch_rows(lengths, lengths, batch_tokens, np.arange(len(rows))):
            given = rows.pad(some, self.tokenizer.roles.pad or 0)
            ids, real, segments = (part.to(self.device) for part in given)
            found[some] = self.model(ids, real, segments).float().cpu()
        return found
