"""Scores of translations: BLEU and chrF as sacreBLEU computes them, and exact match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.base.errors import UserError
from headway.base.showing import Table
from headway.evaluate.surface import bleu_tokenizer, same_length, warn_if_not_text


@dataclass(frozen=True)
class LengthScores:
    """Scores over the sentences whose source has `low` to `high` words (None: no upper end)."""

    low: int
    high: int | None
    n: int
    exact_match: float
    chrf: float
    bleu: float


@dataclass(frozen=True)
class TranslationScores:
    """Corpus scores in percent, with what they were computed by and how they depend on length."""

    n: int
    bleu: float
    chrf: float
    exact_match: float
    signature: str
    chrf_signature: str
    by_length: list[LengthScores]

    def to_table(self) -> dict[str, Any]:
        """The same as plain values for JSON; a length without upper end has `high` null."""
        return asdict(self)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, LengthScores | TranslationScores]]
        rows = [(range_label(part.low, part.high), part) for part in self.by_length]
        return Table(
            ["words", "n", "exact match, %", "chrF", "BLEU"],
            [
                [label, part.n, part.exact_match, part.chrf, part.bleu]
                for label, part in (*rows, ("all", self))
            ],
        )._repr_html_()


def range_label(low: int, high: int | None) -> str:
    """A range of lengths as people write it; no `high` has no end."""
    return f"{low}+" if high is None else f"{low}–{high}"


def score_translations(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    edges: Sequence[int] = (8, 16, 32),
) -> TranslationScores:
    """Score translations against one reference each, over all and by words of the source.

    BLEU and chrF are corpus scores of sacreBLEU (Post 2018) with its defaults; the tokeniser of
    BLEU follows the script of the references. Exact match counts translations equal to their
    reference, character by character. `lowercase` ignores case in all three. `edges` are the
    upper ends, inclusive, of the buckets: 1-8, 9-16, 17-32 and 33 words or more; an empty source
    counts to the first, and a bucket with no sentence is left out. Text that holds subword marks
    or looks pre-tokenised is warned about. Raises UserError if the numbers of lines differ or
    there are none.
    """
    same_length(translations, references)
    if len(sources) != len(references):
        raise UserError(
            f"{len(sources)} sources for {len(references)} references",
            todo="give one source a reference, in the same order",
        )
    if not references:
        raise UserError("there is nothing to score", todo="give at least one translation")
    warn_if_not_text(translations, what="translations")
    warn_if_not_text(references, what="references")
    metrics = _Metrics(bleu_tokenizer(references), lowercase=lowercase)
    rows = list(range(len(references)))
    bleu, chrf, exact_match = metrics(translations, references, rows)
    by_length = []
    for low, high, bucket in _buckets(sources, edges):
        part_bleu, part_chrf, part_exact = metrics(translations, references, bucket)
        by_length.append(LengthScores(low, high, len(bucket), part_exact, part_chrf, part_bleu))
    return TranslationScores(
        n=len(rows),
        bleu=bleu,
        chrf=chrf,
        exact_match=exact_match,
        signature=str(metrics.bleu.get_signature()),
        chrf_signature=str(metrics.chrf.get_signature()),
        by_length=by_length,
    )


class _Metrics:
    """BLEU, chrF and exact match of some rows, by one definition."""

    def __init__(self, tokenizer: str, *, lowercase: bool) -> None:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        self.lowercase = lowercase
        # force silences sacreBLEU's own remark on tokenised text: ours has been made by then.
        self.bleu = BLEU(lowercase=lowercase, tokenize=tokenizer, force=True)
        self.chrf = CHRF(lowercase=lowercase)

    def __call__(
        self, translations: Sequence[str], references: Sequence[str], rows: Sequence[int]
    ) -> tuple[float, float, float]:
        made = [translations[row] for row in rows]
        wanted = [references[row] for row in rows]
        bleu = self.bleu.corpus_score(made, [wanted]).score
        chrf = self.chrf.corpus_score(made, [wanted]).score
        if self.lowercase:
            made, wanted = [text.lower() for text in made], [text.lower() for text in wanted]
        hits = sum(ours == theirs for ours, theirs in zip(made, wanted, strict=True))
        return float(bleu), float(chrf), 100.0 * hits / len(rows)


def _buckets(
    sources: Sequence[str], edges: Sequence[int]
) -> list[tuple[int, int | None, list[int]]]:
    """The rows of each range of source lengths in words; ranges without rows are left out."""
    lengths = [len(text.split()) for text in sources]
    highs: list[int | None] = [*sorted(set(edges)), None]
    found, low = [], 1
    for high in highs:
        rows = [
            row
            for row, length in enumerate(lengths)
            if max(length, 1) >= low and (high is None or length <= high)
        ]
        if rows:
            found.append((low, high, rows))
        low = (high or 0) + 1
    return found
