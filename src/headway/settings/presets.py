"""Named rows of model settings. A preset is data: no class and no branch knows its name."""

from __future__ import annotations

from typing import Any

from headway.base.errors import unknown

PRESETS: dict[str, dict[str, Any]] = {
    # Vaswani et al. 2017, table 3
    "transformer-base": {
        "kind": "transformer",
        "n_encoder_layers": 6,
        "n_decoder_layers": 6,
        "d_model": 512,
        "d_feed_forward": 2048,
        "n_heads": 8,
        "dropout": 0.1,
    },
    "transformer-big": {
        "kind": "transformer",
        "n_encoder_layers": 6,
        "n_decoder_layers": 6,
        "d_model": 1024,
        "d_feed_forward": 4096,
        "n_heads": 16,
        "dropout": 0.3,
    },
    # Wu et al. 2021 (arXiv 2105.14462), the "Tiny" configuration for Multi30k
    "transformer-tiny": {
        "kind": "transformer",
        "n_encoder_layers": 4,
        "n_decoder_layers": 4,
        "d_model": 128,
        "d_feed_forward": 256,
        "n_heads": 4,
        "dropout": 0.3,
    },
}


def expand_preset(table: dict[str, Any], *, where: str) -> dict[str, Any]:
    """A model table with its `preset` replaced by that row; its own keys win.

    Raises UserError for an unknown preset, naming the nearest.
    """
    if "preset" not in table:
        return table
    own = {key: value for key, value in table.items() if key != "preset"}
    name = str(table["preset"])
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS, where=f"{where}, model.preset")
    return {**PRESETS[name], **own}
