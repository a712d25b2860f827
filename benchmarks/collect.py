"""Put a finished run on record: commit, command, machine, log and scores in one JSON.

    (time .venv/bin/headway train cldr/transformer --out runs/full) > full.log 2>&1
    .venv/bin/python benchmarks/collect.py runs/full full.log --json benchmarks/results/full.json

`--scores` adds what `headway evaluate --json` wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from headway.base.files import read_json, to_json, write_atomic
from headway.base.records import Records


def collect(run: Path, log: Path, scores: list[Path]) -> dict[str, Any]:
    """All that is known of a run, without its samples."""
    records = Records(run / "metrics.jsonl").read()
    environment = read_json(run / "environment.json")
    plain = [{k: v for k, v in each.items() if k != "samples"} for each in records]
    return {
        "commit": environment.pop("git"),
        "command": environment.pop("command"),
        "machine": environment,
        "last_train": [each for each in plain if each["kind"] == "train"][-1],
        "valid": [each for each in plain if each["kind"] == "valid"],
        "average": next((each for each in plain[::-1] if each["kind"] == "average"), None),
        "test": next((each for each in plain if each["kind"] == "test"), None),
        "evaluations": {path.stem: json.loads(path.read_text("utf-8")) for path in scores},
        "log": log.read_text("utf-8").splitlines(),
    }


def main() -> None:
    """Read the run, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--scores", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    text = to_json(collect(arguments.run, arguments.log, arguments.scores))
    hidden = {os.environ.get("HEADWAY_DATA"): "$HEADWAY_DATA", str(arguments.run): "RUN"}
    hidden[str(Path(sys.executable).parent) + os.sep] = ""
    for path, shown in hidden.items():  # where things lie on this machine is nobody's business
        text = text.replace(path, shown) if path else text
    write_atomic(arguments.json, text)


if __name__ == "__main__":
    main()
