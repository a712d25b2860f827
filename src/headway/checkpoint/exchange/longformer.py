"""Longformer's names and settings, as Hugging Face has them (`model_type` "longformer").

A BERT whose layers have a window (Beltagy et al., 2020). Which tokens see all is no part of its
config.json: in transformers the caller says it, and if not, a classifier takes the first token and
other models none. So ours is there as `n_global`, which transformers does not read.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

from torch import nn

from headway.base.errors import UserError
from headway.checkpoint.exchange import bert
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.heads import Heads
from headway.checkpoint.exchange.names import Row, layers, linear
from headway.models.encoder import Classifier
from headway.settings.model import EncoderSettings

GLOBAL = "n_global"
# The index of places is no weight; the two others are the embedding and the bias once more
IGNORED = re.compile(r"position_ids$|^lm_head\.decoder\.(weight|bias)$")
HEADS = Heads(
    transform="lm_head.dense",
    norm="lm_head.layer_norm",
    bias="lm_head.bias",
    classifier="classifier.out_proj",
    pooler="classifier.dense",
)


def settings_of(config: Config) -> EncoderSettings:
    """What a config.json says. Raises UserError for what Headway does not compute."""
    config.need("hidden_act", "gelu", default="gelu")  # the masked head has no other
    config.need("tie_word_embeddings", True, default=True)
    fields = bert.fields(config)
    fields["max_length"] -= before(config)
    own = {"reach": _windows(config), "n_global": config.take(GLOBAL, int, 1)}
    return config.settings(EncoderSettings, **fields, **own)


def config_of(settings: EncoderSettings, *sizes: int) -> dict[str, Any]:
    """The config.json of an encoder with these settings, padded with the id 1."""
    return {
        **bert.config_of(settings, *sizes),
        "model_type": "longformer",
        "max_position_embeddings": settings.max_length + 2,
        "pad_token_id": 1,
        "attention_window": [
            settings.reach[layer % len(settings.reach)] for layer in range(settings.n_layers)
        ],
        GLOBAL: settings.n_global,
    }


def before(config: Config) -> int:
    """How many rows a table of positions has before the first: positions are counted from the id
    of padding on. Raises UserError if there is no such id.
    """
    pad = config.table.get("pad_token_id", 1)
    if type(pad) is not int or not 0 <= pad < 2**31:
        what = f"'pad_token_id' is {pad!r}, and a Longformer counts its positions from there on"
        raise UserError(what, where=config.where, todo="name the tokeniser's token for padding")
    return pad + 1


def check_global(config: Config, model: nn.Module) -> None:
    """Say which tokens see all where a config.json does not and transformers would have it
    otherwise. Raises UserError for a classifier that has other ones than transformers' has.
    """
    n = config.take(GLOBAL, int, 1)
    if isinstance(model, Classifier):
        if n != 1:
            what = f"{n} tokens see all; in transformers' classifiers the first one does"
            raise UserError(what, where=config.where, todo=f"make {GLOBAL} 1")
    elif GLOBAL not in config.table:
        warnings.warn(
            f"{config.where}: the first token sees all and is seen by all, as it is in a "
            "classifier; transformers needs a global_attention_mask for it here",
            stacklevel=4,
        )


def body(settings: EncoderSettings) -> list[Row]:
    """The rows of `Encoder`, without its pooler.

    What has no tokens that see all has no projections of theirs: then these are the others' copies,
    which is what Longformer's own began with.
    """
    own = "to_global_{}" if settings.n_global else "to_{}"
    rows = [
        each
        for part in ("query", "key", "value")
        for each in linear(
            f"stack.layers.{{}}.attention.{own.format(part)}",
            f"encoder.layer.{{}}.attention.self.{part}_global",
        )
    ]
    return [*bert.body(settings), *layers(rows, settings.n_layers)]


def _windows(config: Config) -> tuple[int, ...]:
    """The window of each layer, or the one of all."""
    n = config.take("num_hidden_layers", int)
    found = config.table.get("attention_window", 512)
    windows = found if isinstance(found, list) and len(found) == n else [found]
    if not all(type(each) is int and 0 < each < 2**31 for each in windows):
        what = (
            f"'attention_window' is {found!r}, not a number of tokens or one for each of {n} layers"
        )
        raise UserError(what, where=config.where)
    return tuple(windows) if len(set(windows)) > 1 else tuple(windows[:1])
