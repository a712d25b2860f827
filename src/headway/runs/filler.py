"""A masked language model at work: what stands where a text has a mask."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.batches.masked import MaskedBatch
from headway.batches.pairs import EncodedSide
from headway.models.encoder import MaskedLanguageModel
from headway.runs.text_model import refuse_one_text
from headway.settings.model import EncoderSettings
from headway.tokens.kinds import CONTINUES
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits

MASK = "[MASK]"  # how it can be written for every model
_TOGETHER = 32  # texts


@dataclass(frozen=True)
class Guess:
    """A token for a mask, as it reads in the text, and how probable the model finds it."""

    token: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with the likeliest token in each mask, and the likeliest of each, in order."""

    text: str
    masks: list[list[Guess]]


class Filler:
    """A masked language model with its tokeniser, where it computes.

    Raises UserError if the tokeniser has ids that the model has no row for, or no mask.
    """

    what = "a masked language model"
    use = 'fill {} --text "..."'  # what the command line does with it

    def __init__(
        self,
        model: MaskedLanguageModel,
        tokenizer: TextTokenizer,
        settings: EncoderSettings,
        device: torch.device,
    ) -> None:
        check_fits(tokenizer, model.encoder.n_tokens, tokenizer.where)
        if tokenizer.roles.mask is None:
            raise UserError(
                "this tokeniser has no token that masks others",
                where=tokenizer.where,
                todo="name it as mask_token in tokenizer_config.json",
            )
        self.model, self.tokenizer, self.settings = model.to(device).eval(), tokenizer, settings
        self.device, self.mask = device, tokenizer.roles.mask
        self._ordinary = torch.tensor(tokenizer.ordinary(), device=device)
        before = " ?" if tokenizer.joins_blanks() else ""  # the blank is the masked token's own
        names = "|".join(map(re.escape, (MASK, tokenizer.token(self.mask))))
        self._written = re.compile(f"{before}(?:{names})")

    def __repr__(self) -> str:
        n = sum(weight.numel() for weight in self.model.parameters())
        return f"Filler({n:,} parameters, {len(self.tokenizer):,} ids, {self.device})"

    def fill(
        self, texts: Sequence[str], top: int = 5, *, numbers: Sequence[int] | None = None
    ) -> list[Filled]:
        """Guess what stands where each text has [MASK], or the tokeniser's own mask.

        `top` guesses a mask, the likeliest first; special tokens are none. Raises UserError for a
        text without a mask, and for one that is longer than the model can read, with its number in
        `numbers` if they are given.
        """
        refuse_one_text(texts)
        if top < 1:
            raise UserError(f"{top} guesses are none", where="top", todo="ask for 1 or more")
        numbers = numbers or range(1, len(texts) + 1)
        rows = [self._encoded(text, n) for n, text in zip(numbers, texts, strict=True)]
        found: list[Filled] = []
        for begin in range(0, len(rows), _TOGETHER):
            guesses = iter(self._guesses(rows[begin : begin + _TOGETHER], top))
            found += [self._filled(text, guesses) for text in texts[begin : begin + _TOGETHER]]
        return found

    def best(self, batch: MaskedBatch) -> Tensor:
        """The rows of a batch with the likeliest token at each chosen place: ids (B, T)."""
        found = self._probabilities(batch.ids, batch.real, batch.chosen, batch.segments)
        ids = batch.ids.clone()
        ids[batch.chosen] = found.argmax(dim=-1).to(ids.device)
        return ids

    def _encoded(self, text: str, number: int) -> list[int]:
        parts = self.tokenizer.parts(self._written.split(text))
        if len(parts) == 1:
            mask = self.tokenizer.token(self.mask)
            what = f"text {number} has no {mask}"
            raise UserError(what, where="text", todo=f"write {MASK} where a word is to be guessed")
        ((frame, _),) = self.tokenizer.framed([""])
        ids = [*frame[:1], *parts[0]]
        for part in parts[1:]:
            ids += [self.mask, *part]
        ids += frame[1:]
        if len(ids) > self.settings.max_length:
            longest = self.settings.max_length
            what = f"text {number} has {len(ids):,} tokens; the model reads {longest:,}"
            raise UserError(what, where="text", todo="shorten it around the masks")
        return ids

    def _guesses(self, rows: list[list[int]], top: int) -> list[list[Guess]]:
        """Of each mask, in the order of the texts."""
        ids, real = EncodedSide.of(rows).pad(np.arange(len(rows)), 0)
        found = self._probabilities(ids, real, (ids == self.mask) & real)[:, self._ordinary]
        best = found.topk(min(top, len(self._ordinary)), dim=-1)
        chosen = self._ordinary[best.indices].tolist()
        return [
            [
                Guess(piece.replace("▁", " "), id, probability)
                for piece, id, probability in zip(
                    self.tokenizer.pieces(some), some, values, strict=True
                )
            ]
            for some, values in zip(chosen, best.values.tolist(), strict=True)
        ]

    @torch.inference_mode()
    def _probabilities(
        self, ids: Tensor, real: Tensor, places: Tensor, segments: Tensor | None = None
    ) -> Tensor:
        """Of all tokens at the N places (B, T) that are true: (N, V)."""
        ids, real, places = (each.to(self.device) for each in (ids, real, places))
        segments = None if segments is None else segments.to(self.device)
        hidden = self.model.encoder(ids, real, segments)[places]
        logits: Tensor = self.model.masked.output(self.model.masked.transformed(hidden))
        return logits.float().softmax(dim=-1)

    def _filled(self, text: str, guesses: Iterator[list[Guess]]) -> Filled:
        said, *rest = self._written.split(text)
        masks = [next(guesses) for _ in rest]
        for (best, *_), part in zip(masks, rest, strict=True):
            token = best.token if said else best.token.lstrip(" ")
            if token.startswith(CONTINUES):
                said, token = said.rstrip(" "), token.removeprefix(CONTINUES)
            said += token + part
        return Filled(said, masks)
