"""A model beside what turns text into its ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from headway.base.errors import UserError
from headway.batches.order import Rows
from headway.batches.pairs import EncodedPairs, EncodedSide, PairBatch
from headway.models.encoder_decoder import EncoderDecoder
from headway.runs.sentences import cut
from headway.settings.kinds import Foreign, TranslationRecipe
from headway.tokens.sides import Sides, SideTokenizer
from headway.tokens.tokenizer import check_fits


class TextModel:
    """A trained model with its tokenisers, what is known of it and where it computes.

    Raises UserError if a tokeniser has ids that the model has no row for.
    """

    def __init__(
        self,
        model: EncoderDecoder[Any, Any],
        tokenizers: Sides,
        recipe: TranslationRecipe | Foreign,
        device: torch.device,
    ) -> None:
        self.model, self.tokenizers, self.recipe, self.device = model, tokenizers, recipe, device
        source, target = model.vocabulary_sizes()
        check_fits(tokenizers.source, source, "source embedding")
        check_fits(tokenizers.target, target, "target embedding")

    @property
    def n_parameters(self) -> int:
        """The model's parameters, shared ones once."""
        return sum(weight.numel() for weight in self.model.parameters())

    def encode(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 1
    ) -> EncodedPairs:
        """Ids of pairs, cut to what the model can read; warnings number them from `first`.

        Raises UserError for a text in place of a list, or lists that do not go together.
        """
        refuse_one_text(sources)
        refuse_one_text(targets)
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} sources but {len(targets)} targets")
        longest, numbers = self.recipe.model.max_length, range(first, first + len(sources))

        def side(tokenizer: SideTokenizer, texts: Sequence[str], what: str) -> EncodedSide:
            rows = tokenizer.encode(texts)
            return EncodedSide.of(cut(rows, longest, eos=tokenizer.eos, numbers=numbers, what=what))

        return EncodedPairs(
            side(self.tokenizers.source, sources, "line"),
            side(self.tokenizers.target, targets, "target"),
        )

    def batch(self, pairs: EncodedPairs, rows: Rows) -> PairBatch:
        """Those pairs, padded, where the model is."""
        target = self.tokenizers.target
        return pairs.batch(rows, pad=target.pad, bos=target.bos).to(self.device)


def refuse_one_text(texts: Sequence[str]) -> None:
    """UserError for one text where a list of them is needed, which would be read as letters."""
    if isinstance(texts, str):
        raise UserError("a list of texts is needed, not one text", todo="write [text]")
