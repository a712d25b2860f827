"""Alignments of many pairs: the same as one by one, with words that the tokeniser knows of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.base.errors import UserError
from headway.runs.sentences import LongText
from headway.runs.translator import Translator
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.training import train_tokenizer

Run = Callable[[str], Path]
SOURCES = ["un petit chien boit vert", "chat", "  deux  chat rouge", "hippopotame vert " * 4]
TARGETS = ["one small dog drinks green", "cat", "two cat red", "green " * 7]


@pytest.fixture(scope="module", params=["transformer", "attention"])
def translator(request: pytest.FixtureRequest, trained: Run) -> Translator:
    return headway.load(trained(request.param), device="cpu")


def test_a_batch_gives_what_each_pair_gives(translator: Translator) -> None:
    together = translator.alignments(SOURCES, TARGETS)
    for source, target, found in zip(SOURCES, TARGETS, together, strict=True):
        alone = translator.attention(source, target)
        assert (found.source, found.target, found.title) == (
            alone.source,
            alone.target,
            alone.title,
        )
        np.testing.assert_allclose(found.weights, alone.weights, atol=1e-5)
        np.testing.assert_allclose(np.sum(found.weights, axis=1), 1, atol=1e-5)
        assert found.links() == alone.links()


def test_every_word_has_its_tokens_and_one_link(translator: Translator) -> None:
    for source, target, found in zip(
        SOURCES, TARGETS, translator.alignments(SOURCES, TARGETS), strict=True
    ):
        for words, text in ((found.source_words, source), (found.target_words, target)):
            numbers = [word for word in words if word is not None]
            assert numbers == sorted(numbers)
            assert set(numbers) == set(range(len(text.split())))
        assert [word for _, word in found.links()] == list(range(len(target.split())))


def test_pieces_are_of_the_words_they_spell(trained: Run) -> None:
    found = headway.load(trained("transformer"), device="cpu").attention(*(SOURCES[0], TARGETS[0]))
    spelled = dict[int, str]()
    for piece, word in zip(found.source, found.source_words, strict=False):
        assert word is not None
        spelled[word] = spelled.get(word, "") + piece.removeprefix("▁")
    assert list(spelled.values()) == SOURCES[0].split()


def test_trained_attention_links_the_words_that_it_translates(trained: Run) -> None:
    translator = headway.load(trained("attention"), device="cpu")
    pair = (["vert chien boit un"], ["green dog drinks one"])
    assert translator.alignments(*pair)[0].links() == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_layer_and_heads_are_told(trained: Run) -> None:
    translator = headway.load(trained("transformer"), device="cpu")
    (found,) = translator.alignments(["un"], ["one"])
    assert (found.layer, found.heads) == (0, (0, 1))
    (found,) = translator.alignments(["un"], ["one"], layer=1, head=1)
    assert (found.layer, found.heads) == (1, (1,))


def test_words_beyond_the_cut_have_no_tokens(translator: Translator) -> None:
    long = " ".join(["chat"] * 200)
    with pytest.warns(LongText, match="line 1 has"):
        (found,) = translator.alignments([long], ["cat"])
    assert len(found.source) == translator.recipe.model.max_length
    assert found.source[-1] == "</s>"
    assert len(found.source_words) == len(found.source) - 1
    assert found.links()[0][0] < 64


def test_no_attention_no_alignments(trained: Run) -> None:
    translator = headway.load(trained("plain"), device="cpu")
    with pytest.raises(UserError, match="this model has no attention"):
        translator.alignments([], [])


@pytest.mark.filterwarnings("ignore:tokenizer.size")
@pytest.mark.parametrize("kind", ["character", "word", "bpe", "wordpiece"])
def test_spans_cover_the_text(kind: str) -> None:
    texts = ["un  petit chien, l'été", "🙂 un\tchat 1\u00a0000", "", "e\u0301 ñ"]
    settings = TokenizerSettings.model_validate({"kind": kind, "size": 300, "min_count": 1})
    tokenizer = train_tokenizer(settings, texts * 3)
    for text, ids, spans in zip(
        texts, tokenizer.encode(texts), tokenizer.spans(texts), strict=True
    ):
        assert len(ids) == len(spans)
        assert spans[-1] == (0, 0)
        covered = {place for first, last in spans for place in range(first, last)}
        assert {place for place, letter in enumerate(text) if not letter.isspace()} <= covered
        starts = [first for first, _ in spans[:-1]]
        assert starts == sorted(starts)


def test_a_decoder_that_is_fed_its_output_has_its_attention_too(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    recipe = toy_recipe("attention", steps=1)
    recipe["model"] |= {"input_feeding": True}
    translator = headway.train(recipe, out=tmp_path / "run")
    for source, target, found in zip(
        SOURCES, TARGETS, translator.alignments(SOURCES, TARGETS), strict=True
    ):
        alone = translator.attention(source, target)
        np.testing.assert_allclose(found.weights, alone.weights, atol=1e-5)
        np.testing.assert_allclose(np.sum(found.weights, axis=1), 1, atol=1e-5)
        assert len(found.target) == len(translator.tokenizers.target.encode([target])[0])
