"""Headway's command line, which at its end says how much memory its process held at most.

    python benchmarks/peaked.py FILE train RECIPE --out runs/one

Does what `python -m headway train RECIPE --out runs/one` does and writes the MiB into FILE. Who
starts a process cannot read its peak after it has ended, and what getrusage keeps of it includes
the one that it was started from.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from contest import peak_mib


def main() -> None:
    """Run the verb, write the peak."""
    place, *words = sys.argv[1:]
    sys.argv = ["headway", *words]
    try:
        runpy.run_module("headway", run_name="__main__", alter_sys=True)
    finally:  # the command line leaves by SystemExit
        Path(place).write_text(f"{peak_mib():.1f}", encoding="utf-8")


if __name__ == "__main__":
    main()
