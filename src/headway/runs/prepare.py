"""From a recipe's data to encoded pairs, with what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass

from headway.base.errors import UserError
from headway.batches.pairs import EncodedPairs, EncodedSide
from headway.data.pairs import Pairs, load_part
from headway.runs.tokenizers import Tokenizers
from headway.settings.recipe import Recipe


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
    notices = [*train.notices]
    notices.append(f"{len(kept):,} training pairs, {tokens:,} target tokens")
    if len(kept) < len(train):
        notices.append(f"{len(train) - len(kept)} pairs longer than {limit} tokens left out")
    sample = [*train.sources[:2000], *train.targets[:2000]]
    share, seen = made.source.unknowns(sample) if made.source is made.target else (0.0, None)
    if share and seen:
        some = ", ".join(repr(text) for text, _ in seen.most_common(5))
        notices.append(f"{share:.1%} unknown tokens, such as {some}")
    parts = {"train": train, "valid": valid, "test": test}
    hashes = {name: part.digest() for name, part in parts.items() if part is not None}
    return Prepared(encoded, valid, test, made, hashes, tuple(notices))
