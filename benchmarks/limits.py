"""What this machine allows at most: rows have the share that is reached of it as `limit_share`.

A training is not faster than its matrix products at the rate that products of large matrices reach
here, with the dtype and the threads of the training. Counted is what its tokens need, from the
settings: no padding, no keys that a query may not look at, nothing computed again.
"""

from __future__ import annotations

import torch

from headway.settings.counting import training_flops
from headway.settings.model import DecoderSettings, TransformerSettings
from headway.training.utilisation import matrix_rate


def training_limit(flops: float, dtype: str) -> float:
    """Tokens a second if those products were all, of `flops` operations a token."""
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    return matrix_rate(kind, torch.device("cpu"), torch.get_num_threads()) / flops


def text_flops(settings: DecoderSettings, n_ids: int, length: int) -> float:
    """Operations a token of training on texts of `length` tokens."""
    return sum(training_flops(settings, n_ids, length, useful=True).values())


def pair_flops(settings: TransformerSettings, n_ids: int, source: float, target: float) -> float:
    """Operations a target token of training on pairs of `source` and `target` tokens, on average.

    The counts are those of pairs with as many tokens on both sides, so each part is taken from
    where its side has its length: what is made of the source, as often as it has tokens.
    """
    whole = training_flops(settings, n_ids, round(target), useful=True)
    encoder = settings.model_copy(update={"n_decoder_layers": 0})
    read, read_as_target = (
        _without_output(training_flops(encoder, n_ids, round(length), useful=True))
        for length in (source, target)
    )
    queries, keys = settings.n_heads * settings.head_width, settings.kv_heads * settings.head_width
    crossing = whole["cross queries, keys, values"] * 2 * keys / (queries + 2 * keys)
    crossing += whole["cross scores"] + whole["cross weighted values"]  # of dots: a key, a product
    own = sum(whole.values()) - read_as_target - crossing
    return own + (read + crossing) * source / target


def _without_output(flops: dict[str, float]) -> float:
    return sum(flops.values()) - flops["output"]
