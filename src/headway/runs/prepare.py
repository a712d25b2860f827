"""From a recipe's data to encoded pairs, with what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass

from headway.base.errors import UserError
from headway.base.runtime import return_pages
from headway.batches.pairs import EncodedPairs
from headway.data.notes import LONG, RATIO
from headway.data.pairs import Pairs, load_part, notices, open_part
from headway.data.report import PreparationReport
from headway.runs.encoding import FAR, Encoding
from headway.runs.redraw import Redraw
from headway.runs.tokenizers import Tokenizers
from headway.settings.kinds import TranslationRecipe

DATA = "data.json"  # of a run: what became of its training data


@dataclass(frozen=True)
class Prepared:
    """What a training needs of its data."""

    train: EncodedPairs
    valid: Pairs | None
    test: Pairs | None
    tokenizers: Tokenizers
    hashes: dict[str, str]
    notices: tuple[str, ...]
    report: PreparationReport
    redraw: Redraw | None = None


def prepare(recipe: TranslationRecipe, tokenizers: Tokenizers | None = None) -> Prepared:
    """Read the data, train the tokenisers unless they are given, encode the training part.

    The training part is read as a stream, twice at least, and its ids go to the disk: memory does
    not grow with it. Raises UserError for data that cannot be read, that change meanwhile, or that
    do not fill one batch.
    """
    stream = open_part(recipe.data, "train")
    assert stream is not None, "the settings require a training part"
    valid, test = load_part(recipe.data, "valid"), load_part(recipe.data, "test")
    made = tokenizers or Tokenizers.train(recipe.tokenizer, stream)
    return_pages()  # learning takes over 1 kB for each distinct word, most of it freed by now
    encoding = Encoding(stream, made, limit=longest(recipe), write=True)
    _refuse_few(recipe, encoding)
    assert encoding.pairs is not None, "it was written"
    parts = {"valid": valid, "test": test}
    told = [f"train: {each}" for each in notices(stream, duplicates=True)]
    told += [f"{name}: {each}" for name, part in parts.items() if part for each in part.notices]
    report = encoding.report("train", recipe.data)
    hashes = {"train": stream.digest()}
    hashes |= {name: part.digest() for name, part in parts.items() if part is not None}
    told += _about_tokens(report, encoding)
    rate = recipe.tokenizer.dropout
    redraw = Redraw(encoding, made, rate=rate, seed=recipe.seed) if rate else None
    return Prepared(encoding.pairs, valid, test, made, hashes, tuple(told), report, redraw)


def longest(recipe: TranslationRecipe) -> int:
    """The most tokens that a side of a training pair may have."""
    return min(recipe.data.max_tokens, recipe.model.max_length)


def _refuse_few(recipe: TranslationRecipe, encoding: Encoding) -> None:
    origin = encoding.stream.source.origin
    if not encoding.kept:
        raise UserError(
            f"every training pair is longer than {encoding.limit} tokens",
            where=origin,
            todo="raise data.max_tokens and model.max_length, or cut the text into sentences",
        )
    tokens = encoding.target.tokens
    if tokens < recipe.train.batch_tokens:
        raise UserError(
            f"the training data have {tokens} target tokens in {encoding.kept} pairs, fewer than "
            f"one batch of {recipe.train.batch_tokens}",
            where=origin,
            todo="give more data or lower train.batch_tokens",
        )


def _about_tokens(report: PreparationReport, encoding: Encoding) -> list[str]:
    told = [f"{report.kept:,} training pairs, {report.target.tokens:,} target tokens"]
    if long := encoding.notes.count(LONG):
        told.append(f"{long:,} pairs longer than {report.max_tokens} tokens left out")
    if apart := encoding.notes.found.get(RATIO):
        told.append(
            f"{apart.count:,} pairs with more than {FAR} times the tokens on one side kept "
            f"({apart.lines()})"
        )
    for name, side in (("source", report.source), ("target", report.target)):
        if side.unknown:
            some = ", ".join(repr(text) for text, _ in side.examples[:5])
            told.append(f"{side.unknown:.1%} of the {name} tokens are unknown, such as {some}")
    return told
