"""Rows with some tokens hidden, to be guessed; fresh ones each epoch, sources in fixed shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.batches.order import Rows, generator
from headway.batches.packed import MixedBatches
from headway.batches.pairs import batch_rows
from headway.batches.sentences import UNASKED, SentenceRows, Texts
from headway.tokens.text import TextTokenizer

Flags = npt.NDArray[np.bool_]
_MASKED, _KEPT = 0.8, 0.9  # shares of the chosen: masked, and masked or replaced
_MASKS = 3  # what random numbers are for
_FRAME = 3  # ids around two texts


class MaskedBatch(NamedTuple):
    """Padded rows: what is read, and what stood at the `chosen` places, N in all, row by row.

    `segments` are 0 for the first text and 1 for the second; `relation` is what the second is (see
    `Texts`), None where no row is asked.
    """

    ids: Tensor  # (B, T)
    real: Tensor  # (B, T)
    segments: Tensor  # (B, T)
    chosen: Tensor  # (B, T)
    targets: Tensor  # (N,)
    relation: Tensor | None  # (B,)

    @property
    def counts(self) -> dict[str, int]:
        """The tokens to be guessed, and the rows of whose second text something is asked."""
        found = {"masked": len(self.targets)}
        if self.relation is not None:
            found["follows"] = int((self.relation != UNASKED).sum())
        return found

    @property
    def tokens(self) -> int:
        """The real tokens."""
        return int(self.real.sum())

    def to(self, device: torch.device) -> MaskedBatch:
        """The same batch on a device."""
        return MaskedBatch(*(part if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Vocabulary:
    """What masking needs to know of the ids: which are the frame's and the mask's, which never
    stand for text, which begin a word, which may take another's place.
    """

    start: int
    end: int
    pad: int
    mask: int
    special: Flags  # (V,)
    begins: Flags  # (V,)
    ordinary: npt.NDArray[np.int64]

    @classmethod
    def of(cls, tokenizer: TextTokenizer) -> Self:
        """That of a tokeniser. Raises UserError if it has no frame around a text, or no mask."""
        ((frame, _),) = tokenizer.framed([""])
        mask = tokenizer.roles.mask
        if len(frame) != 2 or mask is None:
            raise UserError(
                "this tokeniser has no mask, or none or more than one token on a side of a text",
                where=tokenizer.where,
                todo="learn one, or begin from a masked language model",
            )
        ordinary = np.array(tokenizer.ordinary())
        special = np.ones(len(tokenizer), bool)
        special[ordinary] = False
        begins = np.array(tokenizer.begin_words())
        return cls(frame[0], frame[1], tokenizer.roles.pad or 0, mask, special, begins, ordinary)


@dataclass(frozen=True)
class Masking:
    """Chooses a share `rate` of a row's tokens, one at least, and hides them.

    Of the chosen 80 % become the mask, 10 % any other ordinary token, 10 % stay (Devlin et al.,
    2019, section 3.1). With `whole_words` all tokens of a word are chosen or none.
    """

    vocabulary: Vocabulary
    rate: float
    whole_words: bool

    def hide(self, ids: Rows, random: np.random.Generator) -> tuple[Rows, Flags]:
        """The row as it is read, and which of its places are chosen; special tokens never are."""
        special = self.vocabulary.special[ids]
        places, chosen, shown = np.flatnonzero(~special), np.zeros(len(ids), bool), ids.copy()
        if not len(places):
            return shown, chosen
        words = np.arange(len(places))
        if self.whole_words:
            begins = self.vocabulary.begins[ids] | np.concatenate(([True], special[:-1]))
            words = np.unique(np.cumsum(begins)[places], return_inverse=True)[1]
        lengths = np.bincount(words)
        order = random.permutation(len(lengths))
        wanted = max(1, round(self.rate * len(places)))
        middles = np.cumsum(lengths[order]) - lengths[order] / 2  # the nearest number to `wanted`
        taken = order[: max(1, int(np.searchsorted(middles, wanted)))]
        chosen[places[np.isin(words, taken)]] = True
        at = np.flatnonzero(chosen)
        drawn, others = random.random(len(at)), random.choice(self.vocabulary.ordinary, len(at))
        shown[at] = np.where(
            drawn < _MASKED, self.vocabulary.mask, np.where(drawn < _KEPT, others, ids[at])
        )
        return shown, chosen


@dataclass(frozen=True)
class MaskedBatches(MixedBatches[SentenceRows]):
    """Rows of like lengths together, of at most `budget` padded tokens.

    What is hidden in a row is a pure function of the seed and of the row's place over all passes.
    """

    masking: Masking

    def epoch(self, epoch: int) -> list[Rows]:
        """The batches in any order, the rows of like lengths too."""
        rows = self.shuffled(epoch)
        chosen, places = self.places(epoch, np.arange(len(rows)))
        lengths = np.zeros(len(rows), np.int64)
        for number, source in enumerate(self.sources):
            lengths[chosen == number] = source.lengths(places[chosen == number]) + _FRAME
        batches = batch_rows(lengths, lengths, self.budget, rows)
        order = generator(self.seed, epoch, _MASKS).permutation(len(batches))
        return [batches[place] for place in order]

    def batch(self, epoch: int, rows: Rows) -> MaskedBatch:
        """Those rows, with what this pass hides of them."""
        chosen, places = self.places(epoch, rows)
        found = [
            (self.sources[source].row(place), generator(self.seed, source, place, _MASKS))
            for source, place in zip(chosen.tolist(), places.tolist(), strict=True)
        ]
        self.release()
        asks = any(source.pairs for source in self.sources)
        return masked(found, self.masking, asks=asks)


def fixed_batches(source: SentenceRows, masking: Masking, n: int, budget: int) -> list[MaskedBatch]:
    """Up to `n` rows of a source with masks that stay the same, to be judged on; shortest first."""
    places = np.arange(min(n, source.n_rows))
    lengths = source.lengths(places) + _FRAME
    found = []
    for rows in batch_rows(lengths, lengths, budget, places):
        drawn = [(source.row(row), generator(*source.seed, row, _MASKS)) for row in rows.tolist()]
        found.append(masked(drawn, masking, asks=source.pairs))
    source.release()
    return found


def masked(
    rows: Sequence[tuple[Texts, np.random.Generator]], masking: Masking, *, asks: bool
) -> MaskedBatch:
    """Rows in their frame as tensors; each is hidden by random numbers of its own."""
    words = masking.vocabulary
    framed = []
    for (first, second, _), _ in rows:
        whole = [words.start, *first.tolist(), words.end]
        whole += [*second.tolist(), words.end] if len(second) else []
        framed.append(np.array(whole))
    shape = len(rows), max(map(len, framed))
    ids, real, chosen = np.full(shape, words.pad), np.zeros(shape, bool), np.zeros(shape, bool)
    segments, targets = np.zeros(shape, np.int64), []
    for row, (all_ids, ((first, *_), random)) in enumerate(zip(framed, rows, strict=True)):
        n = len(all_ids)
        ids[row, :n], chosen[row, :n] = masking.hide(all_ids, random)
        real[row, :n] = True
        segments[row, len(first) + 2 : n] = 1
        targets.append(all_ids[chosen[row, :n]])
    relation = [texts.relation for texts, _ in rows]
    return MaskedBatch(
        torch.from_numpy(ids),
        torch.from_numpy(real),
        torch.from_numpy(segments),
        torch.from_numpy(chosen),
        torch.from_numpy(np.concatenate(targets)),
        torch.tensor(relation) if asks else None,
    )
