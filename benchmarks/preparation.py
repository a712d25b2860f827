"""Seconds and memory of preparing a large table: tokeniser, counting, ids on the disk.

    .venv/bin/python benchmarks/preparation.py --json benchmarks/results/preparation.json

Makes the table itself: a TSV with a head, a byte-order mark and CRLF, made-up words by Zipf's law,
3 % rows of a wrong width, 2 % too long, 1 % seen before. A process of its own prepares it, so that
the peak is that of the preparation; the libraries that were loaded before are told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

BLOCK, WORDS, LETTERS = 10_000, 60_000, "etaoinshrdlucmfwygpbvkéèç"
LIMIT = 250  # tokens, the default of a recipe
BAD, LONG, AGAIN = 30, 20, 10  # rows of a thousand


def words(random: np.random.Generator) -> list[str]:
    """Made-up words, the frequent ones shorter."""
    made = []
    for rank in range(WORDS):
        n = 2 + int(random.integers(0, 3)) + int(np.log10(rank + 1) * 1.5)
        made.append("".join(LETTERS[i] for i in random.zipf(1.4, n) % len(LETTERS)))
    return made


def write_table(path: Path, rows: int) -> dict[str, int]:
    """Write the table; returns how many rows there are of each kind."""
    random = np.random.Generator(np.random.PCG64(1))
    source, target = words(random), words(random)
    counts = {"rows": rows, "bad": 0, "long": 0}
    first_ranks, other_ranks = (np.zeros((2, WORDS), bool) for _ in range(2))
    earlier = ""
    with open(path, "wb") as file:
        file.write("\ufeffid\tfr\ten\r\n".encode())
        for first in range(0, rows, BLOCK):
            lines = []
            lengths = random.integers(3, 22, BLOCK)  # 12 words, as captions and subtitles have
            draws = random.random(BLOCK) * 1000
            ranks = (WORDS ** random.random((BLOCK, 52))).astype(np.int64) - 1  # log-uniform: Zipf
            for row in range(min(BLOCK, rows - first)):
                n, draw = int(lengths[row]), draws[row]
                if draw < BAD:
                    counts["bad"] += 1
                    line = f"{first + row}\tone cell is missing"
                elif draw < BAD + AGAIN and earlier:
                    line = earlier
                else:
                    if draw >= 1000 - LONG:
                        counts["long"] += 1
                    times = LIMIT // n + 1 if draw >= 1000 - LONG else 1
                    for side, place in enumerate((0, 26)):
                        first_ranks[side, ranks[row, place]] = True
                        other_ranks[side, ranks[row, place + (times == 1) : place + n]] = True
                    ours = " ".join([source[i] for i in ranks[row, :n]] * times)
                    theirs = " ".join([target[i] for i in ranks[row, 26 : 26 + n]] * times)
                    line = f"{first + row}\t{ours}\t{theirs}"
                    earlier = line if times == 1 else earlier
                lines.append(line + "\r\n")
            file.write("".join(lines).encode())
    # as BPE counts them: with the space before them, or without one at the start of a text
    counts["words"] = sum(
        len(
            {
                made[rank]
                for made, used in zip((source, target), ranks, strict=True)
                for rank in np.flatnonzero(used)
            }
        )
        for ranks in (first_ranks, other_ranks)
    )
    return counts


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def prepare_here(path: Path) -> dict[str, Any]:
    """Prepare the table in this process."""
    from headway.runs.prepare import prepare
    from headway.settings.recipe import load_recipe

    part = {"file": str(path), "source": "fr", "target": "en"}
    recipe = load_recipe("pairs", {f"data.train.{key}": value for key, value in part.items()})
    before = peak_mb()
    load = os.getloadavg()[0]
    began, worked = time.perf_counter(), time.process_time()
    prepared = prepare(recipe)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    report = prepared.report
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),  # of all threads: what other work on the machine slows less
        "load_before": round(load, 1),
        "rows_per_s": round(report.read / seconds),
        "libraries_mb": round(before, 1),
        "above_libraries_mb": round(peak_mb() - before, 1),
        "ids_mb": round(
            4e-6 * (len(prepared.train.source.ids) + len(prepared.train.target.ids)), 1
        ),
        "read": report.read,
        "kept": report.kept,
        "dropped": {finding.kind: finding.count for finding in report.dropped},
        "noticed": {finding.kind: finding.count for finding in report.noticed},
    }


def main() -> None:
    """Make the table, prepare it in another process, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.table:
        print(json.dumps(prepare_here(arguments.table)))
        return
    from headway.base.files import to_json, write_atomic
    from headway.base.runtime import environment

    found = []
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "pairs.tsv"
            counts = write_table(table, rows)
            command = [sys.executable, __file__, "--table", str(table)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
            row = {"made": counts, "file_mb": round(table.stat().st_size / 1e6, 1)}
        row |= json.loads(done.stdout)
        found.append(row)
        print(row, flush=True)
    if arguments.json:
        write_atomic(arguments.json, to_json({"machine": environment(), "rows": found}))


if __name__ == "__main__":
    main()
