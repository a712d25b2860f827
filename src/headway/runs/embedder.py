"""A model of texts at work: one vector a text, by which texts can be compared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from headway.models.decoder import Decoder
from headway.models.encoder import Encoder, mean_pool
from headway.runs.pooling import Manner
from headway.runs.text_model import refuse_one_text
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits

_TOGETHER = 32  # texts


class Embedder:
    """An encoder, or a language model, with its tokeniser, and how its states become one vector.

    Reimers & Gurevych 2019, section 3. Raises UserError if the tokeniser has ids that the model has
    no row for.
    """

    what = "a sentence encoder"

    def __init__(
        self,
        model: Encoder | Decoder,
        tokenizer: TextTokenizer,
        manner: Manner,
        device: torch.device,
    ) -> None:
        check_fits(tokenizer, model.n_tokens, tokenizer.where)
        self.model, self.tokenizer, self.device = model.to(device).eval(), tokenizer, device
        self.manner = manner

    def __repr__(self) -> str:
        n = sum(weight.numel() for weight in self.model.parameters())
        return f"Embedder({n:,} parameters, {self.manner.pooling} of the states, {self.device})"

    @torch.inference_mode()
    def embed(self, texts: Sequence[str], *, numbers: Sequence[int] | None = None) -> Tensor:
        """One vector a text, of length 1 if the model normalises: (N, D) float32 on the CPU.

        A text of more tokens than the manner's longest is cut, with a warning that names it, by its
        number in `numbers` if they are given.
        """
        refuse_one_text(texts)
        if not texts:
            return torch.zeros(0, self.model.embedding.tokens.embedding_dim)
        numbers = numbers or range(1, len(texts) + 1)
        rows = [self._cut(row, n) for n, row in zip(numbers, self._rows(texts), strict=True)]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        found: list[tuple[int, Tensor]] = []
        for begin in range(0, len(order), _TOGETHER):
            places = order[begin : begin + _TOGETHER]
            vectors = self._vectors([rows[place] for place in places])
            found += zip(places, vectors, strict=True)
        return torch.stack([vector for _, vector in sorted(found, key=lambda each: each[0])])

    def similarities(self, query: str, vectors: Tensor) -> list[float]:
        """The cosine of the angle between a text's vector and each of the vectors (N, D)."""
        (asked,) = self.embed([query])
        found: list[float] = torch.nn.functional.cosine_similarity(vectors, asked[None]).tolist()
        return found

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        if isinstance(self.model, Decoder):
            return self.tokenizer.whole(texts)
        return [ids for ids, _ in self.tokenizer.framed(texts)]

    def _cut(self, ids: list[int], number: int) -> list[int]:
        """The first of a text's ids, and the end of its frame, if it has one."""
        longest = self.manner.longest
        if len(ids) <= longest:
            return ids
        warnings.warn(f"text {number} has {len(ids)} tokens and was cut to {longest}", stacklevel=3)
        end = ids[-1:] if self.tokenizer.is_special(ids[-1]) else []
        return [*ids[: longest - len(end)], *end]

    def _vectors(self, rows: list[list[int]]) -> Tensor:
        ids = torch.zeros(len(rows), max(1, *map(len, rows)), dtype=torch.int64)
        real = torch.zeros(ids.shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            ids[place, : len(row)], real[place, : len(row)] = torch.tensor(row), True
        ids, real = ids.to(self.device), real.to(self.device)
        model = self.model
        hidden = model.hidden(ids, real=real) if isinstance(model, Decoder) else model(ids, real)
        vectors = self._pooled(hidden, real)
        if self.manner.normalizes:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors.float().cpu()

    def _pooled(self, hidden: Tensor, real: Tensor) -> Tensor:
        """Hidden (B, T, D), of which real (B, T) -> (B, D); 0 where a text has no token."""
        if self.manner.pooling == "mean":
            return mean_pool(hidden, real)
        lengths = real.sum(dim=1)  # (B,)
        last = (lengths - 1).clamp_min(0) if self.manner.pooling == "last" else lengths * 0
        states = hidden[torch.arange(len(hidden), device=hidden.device), last]  # (B, D)
        return torch.where(lengths[:, None] > 0, states, 0.0)
