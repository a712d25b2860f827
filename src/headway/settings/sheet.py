"""What a preset comes to: parameters, operations and bytes, each by its name."""

from __future__ import annotations

from headway.settings.base import parse
from headway.settings.counting import (
    Countable,
    count_parameters,
    forward_flops,
    generating_flops,
    training_flops,
)
from headway.settings.memory import Batch, cache_bytes, training_bytes
from headway.settings.model import DecoderSettings, EncoderSettings, TransformerSettings
from headway.settings.presets import PRESETS, VOCABULARIES

_KINDS: dict[str, type[Countable]] = {
    "decoder": DecoderSettings,
    "encoder": EncoderSettings,
    "transformer": TransformerSettings,
}
_LONGEST = 4096  # a text, where none is said: attention of longer ones is a choice

Sheet = dict[str, dict[str, float]]


def preset_sheet(name: str, *, length: int | None = None, n_tokens: int | None = None) -> Sheet:
    """Heading -> fact -> number, for texts of `length` tokens and `n_tokens` ids.

    `name` is one of PRESETS; without them, its published vocabulary and its greatest length (but
    at most 4,096 tokens).
    """
    settings = parse(_KINDS[PRESETS[name]["kind"]], PRESETS[name], where=name)
    V, T = n_tokens or VOCABULARIES[name], length or min(settings.max_length, _LONGEST)
    counted = count_parameters(settings, V)
    sheet: Sheet = {
        f"parameters, {V:,} ids": {
            "all": counted.all,
            "without embeddings and output": counted.without_embeddings,
            "with the output": counted.with_head,
        },
        f"training FLOPs a token, texts of {T:,} tokens": {
            **training_flops(settings, V, T),
            "in all, attention in full": sum(training_flops(settings, V, T).values()),
            "in all, its useful half": sum(training_flops(settings, V, T, useful=True).values()),
            "6 · parameters": 6 * counted.all,
        },
        f"inference FLOPs a token, texts of {T:,} tokens": {
            "reading, attention in full": sum(forward_flops(settings, V, T).values()),
            "reading, its useful half": sum(forward_flops(settings, V, T, useful=True).values()),
        },
        f"training bytes, one text of {T:,} tokens, bfloat16, AdamW": _bytes(settings, V, T),
    }
    if isinstance(settings, DecoderSettings):
        generating = sum(generating_flops(settings, V, T - 1).values())
        sheet[f"inference FLOPs a token, texts of {T:,} tokens"]["writing the last"] = generating
        sheet["cache bytes a text"] = {
            f"{T:,} tokens, float32": cache_bytes(settings, T),
            f"{T:,} tokens, bfloat16": cache_bytes(settings, T, width=2),
        }
    return sheet


def _bytes(settings: Countable, V: int, T: int) -> dict[str, float]:
    fused = training_bytes(settings, V, Batch(1, T, "bfloat16"))
    found: dict[str, float] = {
        "weights": fused.weights,
        "gradients": fused.gradients,
        "optimiser": fused.optimizer,
        "output and loss": fused.loss,
    }
    # dropout of the weights needs them: then there is one way
    for attention in ("fused", "reference") if not settings.attention_dropout else ("reference",):
        for recomputes in (False, True):
            batch = Batch(1, T, "bfloat16", attention, recomputes)
            need = training_bytes(settings, V, batch)
            how = f"{attention} attention{', checkpointed' if recomputes else ''}"
            found[f"activations, {how}"] = need.activations
            found[f"peak, {how}"] = need.peak
    return found
