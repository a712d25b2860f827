"""Time and memory of attention against the length of the text, forward and backward.

    .venv-bench/bin/python benchmarks/long_sequences.py \\
        --json benchmarks/results/long_sequences.json --svg docs/explanation/long-sequences

One head of width 64, float32; lengths from 512 to 65,536 (the whole matrix of weights up to
16,384). Exponents are the slopes of log time and log memory against log length, from 2,048 on.
Memory is the most of all tensors' bytes that are there at a time, counted as torch makes them. The
peer is transformers' Longformer layer at the same window, projections included on both sides.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment, keep_pages
from headway.lens.charts import curves_svg
from headway.nn.attend import attend
from headway.nn.attention import KeyValue
from headway.nn.reach import GlobalAttention, Mixtures
from headway.nn.scores import make_score
from headway.nn.visibility import Visibility, full, padding
from headway.settings.model import EncoderSettings
from headway.training.peak import Peak

WIDTH, WINDOW, KEYS = 64, 256, 256
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
WHOLE = 16_384  # the longest text of which the whole matrix of weights is made
FITTED = 2048  # below, what does not depend on the length still counts
Once = Callable[[], Any]


def plain(name: str, n: int) -> Once:
    """Attention of one head as `attend` computes it."""
    torch.manual_seed(0)
    parts = [torch.randn(1, 1, n, WIDTH, requires_grad=True) for _ in range(3)]
    slope, score = torch.randn(1, 1, n, WIDTH), make_score("scaled_dot", WIDTH, WIDTH)
    mixtures = Mixtures(KEYS, n, one=False) if name == "linformer" else None

    def once() -> None:
        visibility: Visibility = full().within(WINDOW) if name == "banded" else full()
        keys = KeyValue(parts[1], parts[2])
        implementation: Any = name
        if mixtures is not None:
            keys, visibility = mixtures(keys, visibility)
            implementation = "auto"
        found = attend(
            parts[0],
            keys.key,
            keys.value,
            score=score,
            visibility=visibility,
            implementation=implementation,
        )
        found.backward(slope)
        for part in parts:
            part.grad = None

    return once


def layer(who: str, n: int) -> Once:
    """A self-attention layer with a window and one global token, ours or transformers'."""
    torch.manual_seed(0)
    hidden = torch.randn(1, n, WIDTH, requires_grad=True)
    slope = torch.randn(1, n, WIDTH)
    if who == "headway":
        settings = EncoderSettings(
            d_model=WIDTH,
            d_feed_forward=WIDTH,
            n_heads=1,
            n_layers=1,
            reach=[WINDOW],
            n_global=1,
            attention_dropout=0.0,
        )
        own = GlobalAttention(settings, 1)
        real = torch.ones(1, n, dtype=torch.bool)

        def ours() -> None:
            visibility = padding(real).within(WINDOW, 1)
            query, keys = own.own(hidden, None)
            found = own.attended(
                hidden, query, keys, visibility=visibility, rotation=None, noise=None
            )
            found.backward(slope)

        return ours
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        attention_window=[WINDOW],
        attention_probs_dropout_prob=0.0,
    )
    peer: nn.Module = LongformerSelfAttention(config, 0)
    mask = torch.zeros(1, n)
    mask[:, 0] = 10_000.0

    def theirs() -> None:
        found = peer(
            hidden,
            attention_mask=mask,
            is_index_masked=mask < 0,
            is_index_global_attn=mask > 0,
            is_global_attn=True,
        )[0]
        found.backward(slope)

    return theirs


def measured(make: Callable[[str, int], Once], name: str, n: int) -> dict[str, Any]:
    """Seconds of a pass forward and backward, and its peak."""
    once, seconds = make(name, n), []
    once()
    rounds = 3 if n >= WHOLE else 7
    for _ in range(rounds):
        began = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - began)
    with Peak() as peak:
        once()
    return {"n": n, "seconds": median(seconds), "bytes": peak.most}


def exponent(rows: list[dict[str, Any]], what: str) -> float:
    """The slope of its logarithm against that of the length."""
    kept = [row for row in rows if row["n"] >= FITTED]
    x, y = (np.log([row[key] for row in kept]) for key in ("n", what))
    return round(float(np.polyfit(x, y, 1)[0]), 3)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path, help="the beginning of the pictures' names")
    arguments = parser.parse_args()
    keep_pages()
    found: dict[str, Any] = {"machine": environment(), "threads": torch.get_num_threads()}
    cases: dict[str, dict[str, list[dict[str, Any]]]] = {"head": {}, "layer": {}}
    for n in LENGTHS:  # the cases in turns, so that a change of the machine hits all
        for name in ("reference", "fused", "blockwise", "banded", "linformer"):
            if n <= WHOLE or name in ("blockwise", "banded", "linformer"):
                cases["head"].setdefault(name, []).append(measured(plain, name, n))
        for name in ("headway", "transformers"):
            cases["layer"].setdefault(name, []).append(measured(layer, name, n))
        for kind, rows in cases.items():
            for name, each in rows.items():
                if each[-1]["n"] == n:
                    last = each[-1]
                    print(
                        f"{n:6} {kind} {name:12} {last['seconds']:9.4f} s {last['bytes']:14,} B",
                        flush=True,
                    )
    found |= cases
    found["exponents"] = {
        kind: {
            name: {what: exponent(each, what) for what in ("seconds", "bytes")}
            for name, each in rows.items()
        }
        for kind, rows in cases.items()
    }
    at = {name: each[LENGTHS.index(WHOLE)] for name, each in cases["head"].items()}
    whole = min(at["reference"]["seconds"], at["fused"]["seconds"])
    found["whole_to_banded_at_16384"] = round(whole / at["banded"]["seconds"], 2)
    ours, theirs = cases["layer"]["headway"], cases["layer"]["transformers"]
    found["peer"] = [
        {
            "n": mine["n"],
            "times_faster": round(its["seconds"] / mine["seconds"], 2),
            "memory": round(mine["bytes"] / its["bytes"], 2),
        }
        for mine, its in zip(ours, theirs, strict=True)
    ]
    print(to_json({key: found[key] for key in ("exponents", "whole_to_banded_at_16384", "peer")}))
    if arguments.json is not None:
        write_atomic(arguments.json, to_json(found))
    if arguments.svg is not None:
        for what, unit in (("seconds", "seconds"), ("bytes", "bytes")):
            series = {
                name: [(row["n"], row[what]) for row in each]
                for name, each in cases["head"].items()
            }
            picture = curves_svg(series, x="tokens", y=unit, log_x=True, log_y=True)
            write_atomic(Path(f"{arguments.svg}-{what}.svg"), picture)


if __name__ == "__main__":
    main()
