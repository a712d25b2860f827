"""Training a tokeniser: the same texts give the same file, in any order, with any workers."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from headway.base.errors import UserError
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.kinds import CONTINUES, LONGEST_WORD, SPECIALS, UNK, backend, bounded
from headway.tokens.tokenizer import Tokenizer, only_unicode

_KEY = "tokenizer.size"
_CHUNK = 10_000  # characters that the library handles at a time
_DISTINCT = 30_000  # texts between spaces that are kept before they are cut into words


class SmallVocabulary(UserWarning):
    """The data has fewer tokens to offer than the settings ask for."""


def train_tokenizer(settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    """Learn a tokeniser from `texts`, read once and as a stream; memory grows with distinct words.

    `settings.size` bounds the ids, special tokens included. `settings.min_count` is the cut-off
    below which a character (character, WordPiece) or word is unknown, and below which two pieces
    are not merged (BPE, WordPiece). Ties go to the more frequent, then to the smaller code points
    (character, word) or to the pair that was in the vocabulary earlier (BPE, WordPiece).

    UserError if there is no text, if nothing in it passes the cut-offs, or if `settings.size` is
    below the least that the kind needs (named).
    SmallVocabulary (a warning) if the data has fewer tokens than `settings.size`.
    """
    _check_least(settings, len(SPECIALS) + 1, "the special tokens and one more")
    chunks = _chunks(texts)
    first = next(chunks, None)
    if first is None:
        raise UserError("there is no text to learn a tokeniser from", where="tokenizer")
    train = {
        "character": _train_characters,
        "word": _train_words,
        "bpe": _train_bpe,
        "wordpiece": _train_wordpiece,
    }[settings.kind]
    made = train(settings, itertools.chain([first], chunks))
    made.add_special_tokens(list(SPECIALS))
    learned = Tokenizer(made)
    if len(learned) == len(SPECIALS):
        raise UserError(
            "nothing in the text can be learned",
            where="tokenizer",
            todo="give more text or a lower tokenizer.min_count",
        )
    if len(learned) < settings.size:
        warnings.warn(
            f"{_KEY}: the data gives a vocabulary of {len(learned)}, not of {settings.size}",
            SmallVocabulary,
            stacklevel=2,
        )
    return learned


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    # A text without end would take the library many times its size; where it is cut depends on
    # nothing but itself, so the order of the texts still does not matter.
    for text in only_unicode(texts):
        start = 0
        while len(text) - start > _CHUNK:
            space = text.rfind(" ", start + 1, start + _CHUNK)
            end = space if space > start else start + _CHUNK
            yield text[start:end]
            start = end
        if text:
            yield text[start:]


def _check_least(settings: TokenizerSettings, least: int, what: str) -> None:
    if settings.size < least:
        raise UserError(
            f"a vocabulary of {settings.size} is too small for {what}",
            where=_KEY,
            todo=f"give at least {least}",
        )


def _most_common(counts: Counter[str], settings: TokenizerSettings) -> list[str]:
    kept = [token for token, count in counts.items() if count >= settings.min_count]
    kept.sort(key=lambda token: (-counts[token], token))
    return kept[: settings.size - len(SPECIALS)]


def _numbered(tokens: Iterable[str]) -> dict[str, int]:
    return {token: id for id, token in enumerate([*SPECIALS, *tokens])}


def _train_characters(settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
    normalise = _normaliser(settings)
    counts = Counter[str]()
    for text in texts:
        counts.update(normalise(text))
    vocabulary = _numbered(_most_common(counts, settings))
    # BPE without a merge leaves each character by itself, and each unknown one too.
    return backend(settings, models.BPE(vocabulary, [], unk_token=UNK, fuse_unk=False))


def _train_words(settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
    made = backend(settings, models.WordLevel(_numbered([]), unk_token=UNK))
    trainer = trainers.WordLevelTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_count,
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def _train_bpe(settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(SPECIALS) + len(alphabet)
    _check_least(settings, least, "the special tokens and all bytes")
    if settings.size == least:
        texts = ()  # no room for a merge, so there is nothing to count
    made = backend(settings, models.BPE(_numbered([]), []))
    cut, made.pre_tokenizer = made.pre_tokenizer, bounded(settings)
    trainer = trainers.BpeTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_count,
        special_tokens=list(SPECIALS),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    made.pre_tokenizer = cut
    return made


def _train_wordpiece(settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
    counts = _count_words(settings, texts)
    continuing = [CONTINUES + letter for letter in sorted({c for word in counts for c in word[1:]})]
    letters = {c for word in counts for c in word}
    least = len(SPECIALS) + len(letters) + len(continuing)
    _check_least(settings, least, "the special tokens and the letters in the data")
    # The library numbers continuing letters in the order of a hash map, and breaks ties by number;
    # as special tokens they are numbered first, in our order. They are made ordinary below.
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_count,
        special_tokens=[*SPECIALS, *continuing],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    learner = Backend(models.WordPiece(unk_token=UNK))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(counts), trainer)
    vocabulary = json.loads(learner.to_str())["model"]["vocab"]
    return backend(
        settings,
        models.WordPiece(vocabulary, unk_token=UNK, max_input_chars_per_word=LONGEST_WORD),
    )


def _count_words(settings: TokenizerSettings, texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs that WordPiece can cut: not too long, and of common letters."""
    counts, spaced = Counter[str](), Counter[str]()
    for text in texts:
        # A space always parts words, so what stands between spaces is cut once and not each time.
        spaced.update(text.split(" "))
        if len(spaced) > _DISTINCT:
            counts.update(_cut(settings, spaced))
            spaced.clear()
    counts.update(_cut(settings, spaced))
    letters = Counter[str]()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    rare = {letter for letter, count in letters.items() if count < settings.min_count}
    return Counter({word: n for word, n in counts.items() if rare.isdisjoint(word)})


def _cut(settings: TokenizerSettings, spaced: Counter[str]) -> Counter[str]:
    made = backend(settings, models.WordPiece(_numbered([]), unk_token=UNK))
    words = Counter[str]()
    for part, count in spaced.items():
        for word, _ in made.pre_tokenizer.pre_tokenize_str(made.normalizer.normalize_str(part)):
            if len(word) <= LONGEST_WORD:
                words[word] += count
    return words


def _repeated(counts: Counter[str]) -> Iterator[str]:
    # The library counts words again and takes no counts from outside.
    for word, count in counts.items():
        whole, rest = divmod(count, 1000)
        for times in [1000] * whole + [rest]:
            yield f"{word} " * times


def _normaliser(settings: TokenizerSettings) -> Callable[[str], str]:
    made = backend(settings, models.BPE(_numbered([]), [], unk_token=UNK))
    return made.normalizer.normalize_str if made.normalizer else str
