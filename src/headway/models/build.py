"""From settings to a network with its first weights."""

from __future__ import annotations

from typing import Any

import torch

from headway.models.encoder_decoder import EncoderDecoder
from headway.models.recurrent import RecurrentTranslator, initialise_recurrent
from headway.models.seq2seq import Transformer, initialise_transformer
from headway.nn.dropout import number_places
from headway.settings.model import RecurrentSettings, TransformerSettings


def build(
    settings: TransformerSettings | RecurrentSettings,
    *,
    n_source: int,
    n_target: int,
    seed: int = 0,
) -> EncoderDecoder[Any, Any]:
    """The network of these settings for vocabularies of these sizes, on the default device.

    Its first weights are a function of `seed` alone; the global generator is left as it was.
    Raises ValueError if one matrix is asked to embed vocabularies of two sizes.
    """
    if settings.tie == "all" and n_source != n_target:
        raise ValueError(f"one embedding cannot serve {n_source} source and {n_target} target ids")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model: EncoderDecoder[Any, Any]
        if isinstance(settings, RecurrentSettings):
            model = RecurrentTranslator(settings, n_source, n_target)
            initialise_recurrent(model)
        else:
            model = Transformer(settings, n_source, n_target)
            initialise_transformer(model)
    number_places(model)
    return model
