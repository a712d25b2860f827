"""How many parameters the presets have, counted without making them (on the meta device)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from headway.models.build import build
from headway.models.seq2seq import Transformer
from headway.settings.counting import count_parameters
from headway.settings.model import TransformerSettings
from headway.settings.presets import PRESETS

V = 37_000  # "a shared source-target vocabulary of about 37000 tokens" (section 5.1)


def count(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


def make(**table: Any) -> Transformer:
    with torch.device("meta"):
        model = build(TransformerSettings(**table), n_source=V, n_target=V)
    assert isinstance(model, Transformer)
    return model


@pytest.mark.parametrize(
    ("name", "published"), [("transformer-base", 65e6), ("transformer-big", 213e6)]
)
def test_presets_have_torchs_count_and_the_published_one(name: str, published: float) -> None:
    """Exactly torch's count; table 3 of Vaswani et al. (2017) only says millions, about.

    torch adds a norm after each stack, which post-norm has no use for: 2 · 2 · D. The one
    embedding matrix serves source, target and output (section 3.4). The paper rounds the
    vocabulary as well as the total and does not say what it counts, so we ask for 4 %.
    """
    row = PRESETS[name]
    D = row["d_model"]
    with torch.device("meta"):
        theirs = nn.Transformer(
            D,
            row["n_heads"],
            row["n_encoder_layers"],
            row["n_decoder_layers"],
            row["d_feed_forward"],
            batch_first=True,
        )
    found = count(make(**row))
    assert found == count(theirs) - 2 * 2 * D + V * D
    assert found == pytest.approx(published, rel=0.04)


def test_tiny_is_as_published() -> None:
    row = PRESETS["transformer-tiny"]
    model = make(**row)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (4, 4)
    block = model.encoder.layers[0]
    assert block.attention.to_query.weight.shape == (128, 128)
    assert block.attention.n_heads == 4
    assert block.feed_forward.up.weight.shape == (256, 128)
    D, feed = 128, 256
    attention, norm = 4 * (D * D + D), 2 * D
    feed_forward = D * feed + feed + feed * D + D
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    assert count(model) == 4 * (encoder + decoder) + V * D


@pytest.mark.parametrize(
    ("changed", "less"),
    [
        ({"n_kv_heads": 1}, 3 * 2 * (3 * 16) * (64 + 1)),  # 3 attentions, K and V, 3 heads fewer
        ({"bias": False}, 3 * 4 * 64 + 2 * (128 + 64)),
        ({"attention_bias": False}, 3 * 4 * 64),
        ({"bias": False, "attention_bias": True}, 2 * (128 + 64)),
        ({"norm": "rms"}, 5 * 64),
        ({"norm": "none"}, 5 * 2 * 64),
        ({"feed_forward": "swiglu"}, -2 * (64 * 128 + 128)),
        ({"order": "pre"}, -2 * 2 * 64),
        ({"tie": "output"}, -V * 64),
        ({"tie": "none"}, -2 * V * 64),
        ({"positions": "learned", "max_length": 100}, -2 * 100 * 64),
        ({"positions": "rotary"}, 0),
        ({"score": "bilinear"}, -3 * 4 * 16 * 16),
        ({"d_head": 8}, 3 * (4 * 64 * 32 + 3 * 32)),
        ({"residual": False}, 0),
    ],
)
def test_each_setting_costs_what_it_says(changed: dict[str, Any], less: int) -> None:
    row = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 64, "d_feed_forward": 128}
    plain, found = count(make(**row, n_heads=4)), count(make(**row, n_heads=4, **changed))
    assert plain - found == less
    settings = TransformerSettings(**row, n_heads=4, **changed)
    assert count_parameters(settings, V).all == found
