"""Which source token each target token looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.base.errors import UserError
from headway.lens.maps import map_svg


@dataclass(frozen=True)
class Alignment:
    """Attention weights with the tokens they belong to.

    `weights` is (T, S), a row a target token and a column a source token: nested lists, a NumPy
    array or a tensor; of `layer`, the mean over `heads`. `source_words` and `target_words` have
    the word that each token is a piece of, counted from 0, None for no word; tokens beyond their
    end (the end symbol) are of no word. Raises UserError if the shape and the tokens disagree.
    """

    source: list[str]
    target: list[str]
    weights: Any
    title: str
    layer: int = 0
    heads: tuple[int, ...] = (0,)
    source_words: Sequence[int | None] = ()
    target_words: Sequence[int | None] = ()

    def __post_init__(self) -> None:
        rows = self.rows()
        widths = {len(row) for row in rows} or {len(self.source)}
        if len(rows) != len(self.target) or widths != {len(self.source)}:
            raise UserError(
                f"weights of {len(rows)} rows and {'/'.join(map(str, sorted(widths)))} columns "
                f"for {len(self.target)} target and {len(self.source)} source tokens",
                where=self.title,
                todo="give one row a target token and one column a source token",
            )

    def rows(self) -> list[list[float]]:
        """The weights as lists, within 0..1; what is not a number counts as 0."""
        plain = self.weights.tolist() if hasattr(self.weights, "tolist") else self.weights
        return [[_within(float(weight)) for weight in row] for row in plain]

    def _repr_svg_(self) -> str:
        return map_svg(self.source, self.target, self.rows(), self.title)._repr_svg_()

    def word_weights(self) -> dict[int, dict[int, float]]:
        """Target word -> source word -> weight: over a source word's tokens the sum, over a
        target word's the mean.
        """
        rows, found = self.rows(), dict[int, dict[int, float]]()
        tokens: dict[int, list[int]] = defaultdict(list)
        for token, word in enumerate(self.target_words):
            if word is not None:
                tokens[word].append(token)
        for word, pieces in sorted(tokens.items()):
            weights: dict[int, float] = defaultdict(float)
            for row in pieces:
                for weight, source in zip(rows[row], self.source_words, strict=False):
                    if source is not None:
                        weights[source] += weight / len(pieces)
            found[word] = dict(weights)
        return found

    def links(self) -> list[tuple[int, int]]:
        """(source word, target word): each target word and the source word it looked at most.

        Of equals the first. There are none where one side has no words.
        """
        return [
            (max(sorted(weights), key=weights.__getitem__), word)
            for word, weights in self.word_weights().items()
            if weights
        ]


def _within(weight: float) -> float:
    return min(max(weight, 0.0), 1.0) if weight == weight else 0.0
