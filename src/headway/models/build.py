"""From settings to a network with its first weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from headway.models.decoder import Decoder, initialise_decoder
from headway.models.encoder import Classifier, MaskedLanguageModel, initialise_encoder
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.recurrent import RecurrentTranslator, initialise_recurrent
from headway.models.seq2seq import Transformer, initialise_transformer
from headway.nn.dropout import number_places
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    RecurrentSettings,
    TransformerSettings,
)

M = TypeVar("M", bound=nn.Module)


def build(
    settings: TransformerSettings | RecurrentSettings,
    *,
    n_source: int,
    n_target: int,
    seed: int = 0,
) -> EncoderDecoder[Any, Any]:
    """The translator of these settings for vocabularies of these sizes, on the default device.

    Its first weights are a function of `seed` alone; the global generator is left as it was.
    Raises ValueError if one matrix is asked to embed vocabularies of two sizes.
    """
    if settings.tie == "all" and n_source != n_target:
        raise ValueError(f"one embedding cannot serve {n_source} source and {n_target} target ids")
    if isinstance(settings, RecurrentSettings):
        return _begin(
            lambda: RecurrentTranslator(settings, n_source, n_target), initialise_recurrent, seed
        )
    return _begin(lambda: Transformer(settings, n_source, n_target), initialise_transformer, seed)


def build_decoder(settings: DecoderSettings, *, n_tokens: int, seed: int = 0) -> Decoder:
    """The causal language model of these settings; its first weights are a function of `seed`."""
    return _begin(
        lambda: Decoder(settings, n_tokens),
        lambda model: initialise_decoder(model, settings),
        seed,
    )


def build_masked(settings: EncoderSettings, *, n_tokens: int, seed: int = 0) -> MaskedLanguageModel:
    """The encoder of these settings with BERT's heads; first weights a function of `seed`."""
    return _begin(lambda: MaskedLanguageModel(settings, n_tokens), initialise_encoder, seed)


def build_classifier(
    settings: EncoderSettings, *, n_tokens: int, n_classes: int, seed: int = 0
) -> Classifier:
    """The encoder of these settings with a classifier; first weights a function of `seed`."""
    return _begin(lambda: Classifier(settings, n_tokens, n_classes), initialise_encoder, seed)


def _begin(make: Callable[[], M], initialise: Callable[[M], None], seed: int) -> M:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = make()
        initialise(model)
    number_places(model)
    return model
