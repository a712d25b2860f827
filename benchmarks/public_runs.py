"""Public trainings: the share of the peak that they reached, and how well one forecasts others.

    python benchmarks/public_runs.py --json benchmarks/results/public-runs.json

Nothing is trained: published device hours are set against the operations that headway.settings
counts (attention in full, no recomputation), at the peaks of hardware.toml. The utilisation of one
run for each accelerator then forecasts the hours of all others. `error` is forecast over published,
less one.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.files import to_json, write_atomic
from headway.scaling.hardware import load_hardware
from headway.settings.base import parse
from headway.settings.counting import count_parameters, forward_flops
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS, VOCABULARIES

CALIBRATED = ("Llama-2 7B", "Llama-3.1 70B")  # one for each accelerator


@dataclass(frozen=True)
class Run:
    """A public training; `usd` where its price was published."""

    name: str
    model: str | dict[str, Any]
    n_tokens: int
    length: int
    tokens: float
    machine: str
    hours: float
    source: str
    usd: float | None = None


_LLAMA2 = "Touvron et al. 2023, arXiv 2307.09288, table 2"
_LLAMA3 = "model card of Llama 3.1, meta-llama/llama-models; more than 15 T tokens"
_OTHER = {"kind": "decoder", "order": "pre", "positions": "none", "feed_forward": "gelu"}
_TINY = {**PRESETS["llama-2-7b"], "n_layers": 22, "d_model": 2048, "d_feed_forward": 5632}

RUNS = (
    Run("Llama-2 7B", "llama-2-7b", 32_000, 4096, 2e12, "a100-80gb", 184_320, _LLAMA2),
    Run("Llama-2 70B", "llama-2-70b", 32_000, 4096, 2e12, "a100-80gb", 1_720_320, _LLAMA2),
    Run("Llama-3.1 8B", "llama-3.1-8b", 128_256, 8192, 15e12, "h100-sxm", 1.46e6, _LLAMA3),
    Run("Llama-3.1 70B", "llama-3.1-70b", 128_256, 8192, 15e12, "h100-sxm", 7.0e6, _LLAMA3),
    Run("Llama-3.1 405B", "llama-3.1-405b", 128_256, 8192, 15e12, "h100-sxm", 30.84e6, _LLAMA3),
    Run(
        "BLOOM 176B",
        {**_OTHER, "n_layers": 70, "d_model": 14_336, "d_feed_forward": 57_344, "n_heads": 112}
        | {"norm_embedding": True},
        250_880,
        2048,
        366e9,
        "a100-80gb",
        1_082_990,
        "Luccioni et al. 2023, JMLR 24 (253), table 1",
    ),
    Run(
        "TinyLlama 1.1B",
        {**_TINY, "n_kv_heads": 4},
        32_000,
        2048,
        3e12,
        "a100-40gb",
        16 * 90 * 24,
        "README of jzhang38/TinyLlama: 16 A100 for 90 days",
    ),
    Run(
        "MPT-7B",
        {**_OTHER, "n_layers": 32, "d_model": 4096, "d_feed_forward": 16_384, "n_heads": 32}
        | {"bias": False},
        50_432,
        2048,
        1e12,
        "a100-40gb",
        440 * 9.5 * 24,
        "MosaicML, Introducing MPT-7B (5 May 2023): 440 A100 for 9.5 days, about 200,000 USD",
        200_000,
    ),
)


def counted(run: Run) -> dict[str, Any]:
    """What a run took, by our count, and the share of the peak that this is."""
    table = PRESETS[run.model] if isinstance(run.model, str) else run.model
    settings = parse(DecoderSettings, table, where=run.name)
    if isinstance(run.model, str) and VOCABULARIES[run.model] != run.n_tokens:
        raise ValueError(f"{run.name} has another vocabulary than its preset")
    params = count_parameters(settings, run.n_tokens).all
    a_token = 3 * sum(forward_flops(settings, run.n_tokens, run.length).values())
    machine = load_hardware().find(run.machine)
    peak = 1e12 * (machine.peak.bfloat16 or 0.0)
    seconds = run.hours * 3600
    return {
        "run": run.name,
        "machine": machine.name,
        "parameters_all": params,
        "tokens": run.tokens,
        "length": run.length,
        "device_hours": run.hours,
        "flops": a_token * run.tokens,
        "flops_6nd": 6 * params * run.tokens,
        "utilisation": a_token * run.tokens / (peak * seconds),
        "utilisation_6nd": 6 * params * run.tokens / (peak * seconds),
        "peak": peak,
        "usd": run.usd,
        "source": run.source,
    }


def forecast(rows: list[dict[str, Any]]) -> None:
    """Add to each row what the calibrated run of its accelerator forecasts."""
    by_peak = {row["peak"]: row for row in rows if row["run"] in CALIBRATED}
    for row in rows:
        known = by_peak[row["peak"]]
        hours = row["flops"] / (row["peak"] * known["utilisation"]) / 3600
        row["calibrated_on"] = None if known is row else known["run"]
        row["forecast_hours"] = hours
        row["error"] = hours / row["device_hours"] - 1
        if row["usd"] is not None:
            row["forecast_usd"] = row["usd"] * hours / row["device_hours"]


def main() -> None:
    """Count, forecast, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [counted(run) for run in RUNS]
    forecast(rows)
    shares = sorted(row["utilisation"] for row in rows)
    for row in rows:
        print(
            f"{row['run']:16} {row['device_hours']:>12,.0f} h  {row['utilisation']:.3f} "
            f"({row['utilisation_6nd']:.3f} by 6ND)  {row['forecast_hours']:>12,.0f} h  "
            f"{100 * row['error']:+.0f} %"
        )
    middle = [shares[1], statistics.median(shares), shares[-2]]
    print("utilisation: " + ", ".join(f"{share:.2f}" for share in middle))
    result = {
        "command": "python benchmarks/public_runs.py --json benchmarks/results/public-runs.json",
        "utilisation": middle,
        "rows": rows,
    }
    if arguments.json:
        write_atomic(arguments.json, to_json(result))


if __name__ == "__main__":
    main()
