"""An encoder at work: one vector a text, by which texts can be compared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.files import read_json
from headway.models.encoder import Encoder, mean_pool
from headway.runs.text_model import refuse_one_text
from headway.runs.text_tokenizers import folder_tokenizer
from headway.settings.model import EncoderSettings
from headway.tokens.text import TextTokenizer

Pooling = Literal["mean", "first"]
_TOGETHER = 32  # texts
_POOLINGS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
}


class Embedder:
    """An encoder with its tokeniser, and how its states become one vector.

    `longest` is the most tokens of a text that are read, its frame included. Reimers & Gurevych
    2019, section 3.
    """

    what = "a sentence encoder"

    def __init__(
        self,
        model: Encoder,
        tokenizer: TextTokenizer,
        *,
        pooling: Pooling = "mean",
        normalizes: bool = True,
        longest: int,
        device: torch.device,
    ) -> None:
        self.model, self.tokenizer, self.device = model.to(device).eval(), tokenizer, device
        self.pooling, self.normalizes, self.longest = pooling, normalizes, longest

    def __repr__(self) -> str:
        n = sum(weight.numel() for weight in self.model.parameters())
        return f"Embedder({n:,} parameters, {self.pooling} of the states, {self.device})"

    @classmethod
    def of_folder(
        cls, model: Encoder, settings: EncoderSettings, folder: Path, device: torch.device
    ) -> Self:
        """As the folder's modules.json says, which sentence-transformers writes; else the mean.

        Raises UserError for a way of pooling that Headway does not compute.
        """
        pooling: Pooling = "mean"
        modules = read_json(folder / "modules.json") if _has(folder, "modules.json") else []
        kinds = [str(each.get("type", "")) for each in modules if isinstance(each, dict)]
        for each in modules:
            if str(each.get("type", "")).endswith("Pooling"):
                pooling = _pooling(folder / str(each.get("path", "")) / "config.json")
        longest = settings.max_length
        if _has(folder, "sentence_bert_config.json"):
            said = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
            longest = min(longest, said) if isinstance(said, int) else longest
        return cls(
            model,
            folder_tokenizer(folder),
            pooling=pooling,
            normalizes=not kinds or any(kind.endswith("Normalize") for kind in kinds),
            longest=longest,
            device=device,
        )

    @torch.inference_mode()
    def embed(self, texts: Sequence[str], *, numbers: Sequence[int] | None = None) -> Tensor:
        """One vector a text, of length 1 if the model normalises: (N, D) float32 on the CPU.

        A text of more than `longest` tokens is cut, with a warning that names it, by its number in
        `numbers` if they are given.
        """
        refuse_one_text(texts)
        if not texts:
            return torch.zeros(0, self.model.embedding.tokens.embedding_dim)
        framed = self.tokenizer.framed(texts)
        numbers = numbers or range(1, len(texts) + 1)
        rows = [self._cut(row, n) for n, (row, _) in zip(numbers, framed, strict=True)]
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

    def _cut(self, ids: list[int], number: int) -> list[int]:
        if len(ids) <= self.longest:
            return ids
        warnings.warn(
            f"text {number} has {len(ids)} tokens and was cut to {self.longest}", stacklevel=3
        )
        return [*ids[: self.longest - 1], ids[-1]]

    def _vectors(self, rows: list[list[int]]) -> Tensor:
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
        real = torch.zeros(ids.shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            ids[place, : len(row)], real[place, : len(row)] = torch.tensor(row), True
        ids, real = ids.to(self.device), real.to(self.device)
        hidden = self.model(ids, real)
        vectors = mean_pool(hidden, real) if self.pooling == "mean" else hidden[:, 0]
        if self.normalizes:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors.float().cpu()


def _has(folder: Path, name: str) -> bool:
    return (folder / name).is_file()


def _pooling(path: Path) -> Pooling:
    table = read_json(path)
    modes = [name for name, on in table.items() if name.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise UserError(
            f"pooling by {', '.join(modes) or 'nothing'}; Headway pools by one of "
            f"{', '.join(_POOLINGS)}",
            where=str(path),
        )
    return _POOLINGS[modes[0]]
