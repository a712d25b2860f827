"""SmolLM2-135M at work on a CPU, against transformers and llama.cpp on the same file.

    .venv-bench/bin/python benchmarks/run.py --only decode-smollm2

Tokens a second of one text and of 16 together, greedy, and of reading 512 tokens up to the first
new one. transformers opens the folder that Headway exports, since it would keep the file's weights
packed, which is slower. llama.cpp reads the file as it is (4 bits a weight, the output 8), and a
file of 8 bits that Headway exports; ours rounds the same weights. How far that is from float32 is
told too: the divergence KL(float32 || rounded) of the next token, in nats, over texts that float32
wrote.

Prompts come to all as ids, in a file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from contest import (
    Row,
    Turn,
    Work,
    lost_row,
    memory_row,
    once,
    remaining,
    rows_or_reason,
    serve,
    speed_row,
)
from smollm2_work import (
    N_NEW,
    N_READ,
    OURS,
    TOGETHER,
    divergence,
    fastest,
    llama,
    opened,
    ours,
    read_given,
    theirs,
    write_given,
)

CASE = "decode-smollm2"
GIVEN = "given.json"
LARGEST_KL = 1e-3
# work -> contenders; of each pair that is compared, ours first
WORK = {
    "one": (*OURS, "transformers-float32", "transformers-bfloat16", "llama.cpp-4", "llama.cpp-8"),
    "many": (*OURS, "transformers-float32", "transformers-bfloat16"),
    "read": (*OURS, "transformers-float32", "transformers-bfloat16", "llama.cpp-4", "llama.cpp-8"),
}
AGAINST = {
    "float32": ("transformers-float32",),
    "bfloat16": ("transformers-bfloat16",),
    "int8": ("llama.cpp-8", "transformers-bfloat16"),
    "int4": ("llama.cpp-4", "transformers-bfloat16"),
}
MEASURES = {
    "one": f"tokens a second of one text, {N_NEW} of them",
    "many": f"tokens a second of {TOGETHER} texts together, {N_NEW} each",
    "read": f"tokens read a second, {N_READ} up to the first new one",
}


def rows(rounds: int) -> list[Row]:
    """Each work against each peer, how 16 together compare with one, and the divergences."""
    from smollm2 import gguf_path

    found: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = {name: gguf_path() for name in (*OURS, "llama.cpp-4", "divergence")}
        files |= {"llama.cpp-8": folder / "q8.gguf"}
        files |= {f"transformers-{dtype}": folder / "hf" for dtype in ("float32", "bfloat16")}
        _prepare(folder)
        speeds: dict[str, dict[str, list[Turn]]] = {}
        here = find_spec("llama_cpp") is not None
        if not here:
            reason = "llama-cpp-python is not installed"
            found.append({"case": CASE, "peer": "llama.cpp", "reason": reason})
        limits: dict[str, float] = {}
        command = _command("limits", "", gguf_path(), folder)
        about: Row = {"case": f"{CASE}-one", "peer": "the machine's limit"}
        found += rows_or_reason(about, _limits, command, limits)
        for work, names in WORK.items():
            present = [name for name in names if here or not name.startswith("llama")]
            commands = {name: _command(name, work, files[name], folder) for name in present}
            about = {"case": f"{CASE}-{work}", "peer": None}
            found += rows_or_reason(about, _speed, work, commands, rounds, limits, speeds)
        found += _together(speeds)
        command = _command("divergence", "", files["divergence"], folder)
        about = {"case": f"{CASE}-divergence", "peer": None}
        found += rows_or_reason(about, _divergences, command)
    return found


def _limits(command: list[str], limits: dict[str, float]) -> list[Row]:
    """No rows: what the machine allows at most goes into `limits`."""
    limits |= once(command)
    return []


def _speed(
    work: str,
    commands: dict[str, list[str]],
    rounds: int,
    limits: dict[str, float],
    speeds: dict[str, dict[str, list[Turn]]],
) -> list[Row]:
    """Speed and memory of ours and the peers at that work; the turns go into `speeds`."""
    turns, lost = remaining(commands, rounds=rounds)
    speeds[work] = turns
    case = f"{CASE}-{work}"
    found = [lost_row({"case": case, "peer": name}, why) for name, why in lost.items()]
    pairs = [(mine, other) for mine, others in AGAINST.items() for other in others]
    for mine, other in (pair for pair in pairs if turns.keys() >= set(pair)):
        about = {"case": case, "peer": f"{other}, ours {mine}"}
        # of texts together reading the weights is no limit: one reading serves all of them
        limit = limits.get(mine) if work == "one" else None
        speed = speed_row(turns[mine], turns[other], limit)
        found.append(about | {"measure": MEASURES[work]} | speed)
        found.append(about | {"measure": "largest memory of the process, MiB"})
        found[-1] |= memory_row(turns[mine], turns[other])
    return found


def _together(speeds: dict[str, dict[str, list[Turn]]]) -> list[Row]:
    """Our own many texts together beside one."""
    many, one = (speeds.get(work, {}) for work in ("many", "one"))
    found = []
    for name in (name for name in OURS if name in many and name in one):
        about = {"case": f"{CASE}-many", "peer": f"our own one by one, {name}"}
        measure = {"measure": f"tokens a second, {TOGETHER} together"}
        found.append(about | measure | speed_row(many[name], one[name]))
    return found


def _divergences(command: list[str]) -> list[Row]:
    """How far each kind of rounded weights is from float32."""
    found = []
    for name, told in once(command).items():
        about = {"case": f"{CASE}-divergence", "peer": f"{name} and the bound of {LARGEST_KL}"}
        about |= {"measure": "KL to float32, nats a token"}
        ratio = round(told["kl"] / LARGEST_KL, 3)
        found.append(about | {"ours": told["kl"], "theirs": LARGEST_KL, "ratio": ratio} | told)
    return found


def _prepare(folder: Path) -> None:
    """The files of the peers, and what all are given."""
    from smollm2 import PROMPTS, gguf_path

    import headway

    headway.export(gguf_path(), folder / "q8.gguf", format="gguf", type="q8_0")
    headway.export(gguf_path(), folder / "hf", format="hf")
    write_given(opened(gguf_path(), None), PROMPTS, folder / GIVEN)


def _command(name: str, work: str, file: Path, folder: Path) -> list[str]:
    places = ["--file", str(file), "--given", str(folder / GIVEN)]
    return [sys.executable, __file__, "--as", name, "--work", work, *places]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--given", type=Path, required=True)
    asked = parser.parse_args()

    def prepare() -> Work:
        given = read_given(asked.given)
        if asked.name == "limits":
            return lambda: (0.0, fastest(asked.file))
        if asked.name == "divergence":
            return lambda: (0.0, divergence(asked.file, given))
        if asked.name in OURS:
            act = ours(asked.file, given, asked.name, asked.work)
        elif asked.name.startswith("llama"):
            act = llama(asked.file, given, asked.work)
        else:
            act = theirs(asked.file, given, asked.name, asked.work)
        return lambda: (act(), {})

    serve(prepare)


if __name__ == "__main__":
    main()
