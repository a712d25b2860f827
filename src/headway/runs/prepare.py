"""From a recipe's data to encoded pairs, with what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass

from headway.base.errors import UserError
from headway.batches.pairs import EncodedPairs, EncodedSide
from headway.data.pairs import Pairs, load_part
from headway.runs.tokenizers import Tokenizers
from headway.settings.recipe import Recipe

LOOKED_AT = 2000  # pairs in which unknown tokens are counted


@dataclass(frozen=True)
class Prepared:
    """What a training needs of its data."""

    train: EncodedPairs
    valid: Pairs | None
    test: Pairs | None
    tokenizers: Tokenizers
    hashes: dict[str, str]
    notices: tuple[str, ...]


def prepare(recipe: Recipe, tokenizers: Tokenizers | None = None) -> Prepared:
    """Read the data, train the tokenisers unless they are given, encode the training part.

    Raises UserError for data that cannot be read, or that do not fill one batch.
    """
    train = load_part(recipe.data, "train")
    assert train is not None, "the settings require a training part"
    valid, test = load_part(recipe.data, "valid"), load_part(recipe.data, "test")
    made = tokenizers or Tokenizers.train(recipe.tokenizer, train)
    sources, targets = made.source.encode(train.sources), made.target.encode(train.targets)
    limit = min(recipe.data.max_tokens, recipe.model.max_length)
    kept = [
        index
        for index, (source, target) in enumerate(zip(sources, targets, strict=True))
        if len(source) <= limit and len(target) <= limit
    ]
    if not kept:
        raise UserError(
            f"every training pair is longer than {limit} tokens",
            where=train.origin,
            todo="raise data.max_tokens and model.max_length, or cut the text into sentences",
        )
    encoded = EncodedPairs(
        EncodedSide.of([sources[index] for index in kept]),
        EncodedSide.of([targets[index] for index in kept]),
    )
    tokens = int(encoded.target.lengths.sum())
    if tokens < recipe.train.batch_tokens:
        raise UserError(
            f"the training data have {tokens} target tokens in {len(kept)} pairs, fewer than one "
            f"batch of {recipe.train.batch_tokens}",
            where=train.origin,
            todo="give more data or lower train.batch_tokens",
        )
    parts = {"train": train, "valid": valid, "test": test}
    notices = [f"{name}: {told}" for name, part in parts.items() if part for told in part.notices]
    notices.append(f"{len(kept):,} training pairs, {tokens:,} target tokens")
    if len(kept) < len(train):
        notices.append(f"{len(train) - len(kept)} pairs longer than {limit} tokens left out")
    notices += _unknowns(made, train)
    hashes = {name: part.digest() for name, part in parts.items() if part is not None}
    return Prepared(encoded, valid, test, made, hashes, tuple(notices))


def _unknowns(tokenizers: Tokenizers, pairs: Pairs) -> list[str]:
    """For each side, how much of the first pairs its tokeniser does not know, with examples."""
    notices = []
    sides = {
        "source": (tokenizers.source, pairs.sources),
        "target": (tokenizers.target, pairs.targets),
    }
    for side, (tokenizer, texts) in sides.items():
        share, seen = tokenizer.unknowns(texts[:LOOKED_AT])
        if share:
            some = ", ".join(repr(text) for text, _ in seen.most_common(5))
            notices.append(f"{share:.1%} of the {side} tokens are unknown, such as {some}")
    return notices
