"""A classifier tells which texts it did not read whole."""

from __future__ import annotations

import warnings

import pytest
import torch
from tokenizers import AddedToken, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from headway.models.build import build_classifier
from headway.runs.classifier import TextClassifier
from headway.runs.sentences import LongText
from headway.settings.model import EncoderSettings
from headway.tokens.text import Roles, TextTokenizer

LONGEST = 8
SPECIALS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
SETTINGS = EncoderSettings(
    n_layers=1, d_model=16, d_feed_forward=32, n_heads=2, max_length=LONGEST, norm_eps=1e-12
)


def classifier(n_classes: int = 2) -> TextClassifier:
    vocab = {word: id for id, word in enumerate([*SPECIALS, "a", "b"])}
    made = Backend(models.WordLevel(vocab, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens([AddedToken(each, normalized=False) for each in SPECIALS])
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    model = build_classifier(SETTINGS, n_tokens=len(vocab), n_classes=n_classes)
    return TextClassifier(
        model,
        TextTokenizer(made, Roles(pad=0)),
        SETTINGS,
        ["no", "yes"] if n_classes > 1 else None,
        longest=LONGEST,
        device=torch.device("cpu"),
    )


def text(n: int) -> str:
    return "a " * n


def test_one_long_text_is_named_with_its_length() -> None:
    with pytest.warns(LongText, match="text 2 has 9 tokens and was cut to the 8 that"):
        found = classifier().classify([text(6), text(7), text(1)])  # a frame of two
    assert len(found) == 3


def test_several_are_one_warning_by_their_numbers() -> None:
    texts = [text(9)] * 2500 + [text(6)]
    with pytest.warns(LongText) as told:
        classifier(1).estimate(texts, numbers=range(100, 100 + 2 * len(texts), 2))
    (message,) = (str(each.message) for each in told)
    assert message.startswith("texts 100, 102, 104, ")
    assert "138, … (2,500 in all) have more tokens and were cut to the 8" in message


def test_pairs_are_told_too_and_what_fits_is_not() -> None:
    model = classifier()
    with pytest.warns(LongText, match="text 1 has 9 tokens"):
        model.probabilities([text(3), text(2)], [text(3), text(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.probabilities([text(2), ""], [text(3), ""])
        model.classify([text(6)])
