"""What is known of each family of models that Headway exchanges with Hugging Face folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.base.errors import unknown
from headway.checkpoint.exchange import bert, gpt, llama, longformer, marian
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.heads import Heads
from headway.checkpoint.exchange.names import Row
from headway.models.decoder import Decoder
from headway.models.encoder import Classifier, Encoder, MaskedLanguageModel
from headway.models.seq2seq import Transformer
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    StackSettings,
    TransformerSettings,
)


@dataclass(frozen=True)
class Family:
    """A `model_type`: its settings, of this kind, both ways, and its names.

    `body` has the rows of the network below its heads, and `prefix` stands before their names where
    there is a head. `ignored` names what may be in a file and is no weight of ours. `architectures`
    names the classes that such a folder is for, `heads` what stands above an encoder. `before` is
    how many rows a table of learned positions has before the first.
    """

    kind: type[StackSettings]
    settings: Callable[[Config], Any]
    config: Callable[..., dict[str, Any]]
    body: Callable[[Any], list[Row]]
    prefix: str
    ignored: re.Pattern[str]
    architectures: dict[type[nn.Module], str]
    heads: Heads | None = None
    before: Callable[[Config], int] = lambda config: 0

    def architecture(self, model: nn.Module) -> str:
        """The class that a folder of this model is for."""
        if isinstance(model, MaskedLanguageModel) and model.follows is None:
            return self.architectures[type(model)].replace("PreTraining", "MaskedLM")
        return self.architectures[type(model)]


FAMILIES: dict[str, Family] = {
    "bert": Family(
        EncoderSettings,
        bert.settings_of,
        bert.config_of,
        bert.body,
        "bert.",
        bert.IGNORED,
        {
            Encoder: "BertModel",
            MaskedLanguageModel: "BertForPreTraining",
            Classifier: "BertForSequenceClassification",
        },
        bert.HEADS,
    ),
    "longformer": Family(
        EncoderSettings,
        longformer.settings_of,
        longformer.config_of,
        longformer.body,
        "longformer.",
        longformer.IGNORED,
        {
            Encoder: "LongformerModel",
            MaskedLanguageModel: "LongformerForMaskedLM",
            Classifier: "LongformerForSequenceClassification",
        },
        longformer.HEADS,
        longformer.before,
    ),
    "openai-gpt": Family(
        DecoderSettings,
        gpt.gpt1_settings,
        gpt.gpt1_config,
        gpt.gpt1_body,
        "transformer.",
        gpt.IGNORED,
        {Decoder: "OpenAIGPTLMHeadModel"},
    ),
    "gpt2": Family(
        DecoderSettings,
        gpt.gpt2_settings,
        gpt.gpt2_config,
        gpt.gpt2_body,
        "transformer.",
        gpt.IGNORED,
        {Decoder: "GPT2LMHeadModel"},
    ),
    "llama": Family(
        DecoderSettings,
        llama.settings_of,
        llama.config_of,
        llama.body,
        "model.",
        llama.IGNORED,
        {Decoder: "LlamaForCausalLM"},
    ),
    "mistral": Family(
        DecoderSettings,
        llama.mistral_settings,
        llama.mistral_config,
        llama.body,
        "model.",
        llama.IGNORED,
        {Decoder: "MistralForCausalLM"},
    ),
    "marian": Family(
        TransformerSettings,
        marian.settings_of,
        marian.config_of,
        marian.body,
        "model.",
        marian.IGNORED,
        {Transformer: "MarianMTModel"},
    ),
}


def family_of(config: Config) -> Family:
    """The family that a config.json names. Raises UserError for one that Headway lacks."""
    name = config.take("model_type", str)
    if name not in FAMILIES:
        raise unknown("model_type", name, FAMILIES, where=config.where)
    return FAMILIES[name]
