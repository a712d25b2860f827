"""Mutated weights: nothing but clean errors, and no more memory than the file deserves.

    .venv/bin/python benchmarks/fuzz_weights.py --json benchmarks/results/fuzz_weights.json

Small models are written as GGUF (each way of storing numbers) and as Hugging Face folders; then
bytes of their files are changed, cut, doubled and taken out, most of them in the headers, and the
result is opened. It must open, or raise UserError. The peak of each opening is the resident memory
that it adds, from /proc (so this runs on Linux): of what is refused over the size of the file, of
what opens over the size of the model in float32.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import re
import shutil
import struct
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from headway.base.errors import UserError
from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment
from headway.checkpoint.exchange.gguf_file import GGUF, STORAGES
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.models.build import build, build_decoder, build_masked
from headway.runs.text_tokenizers import file_tokenizer
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    RotaryScaling,
    TransformerSettings,
)
from headway.settings.presets import PRESETS
from headway.tokens.gguf_metadata import gguf_metadata
from headway.tokens.text import Roles, TextTokenizer

N_TOKENS, SEED = 300, 1
SMALL = {"n_layers": 2, "d_model": 256, "d_feed_forward": 512, "n_heads": 4, "max_length": 64}
LIBC = ctypes.CDLL(None)
NUMBERS = [0, 1, 2, 3, 4, 8, 31, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1]
NUMBERS += [2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


@dataclass
class Case:
    """A whole file, how far its header goes, and what opens it."""

    name: str
    path: Path
    header: int
    open: Callable[[], object]
    size: int  # bytes of the file with the weights
    numbers: int  # bytes of the model in float32, which is what opening is for
    outcomes: Counter[str] = field(default_factory=Counter)
    peaks: dict[str, float] = field(default_factory=dict)  # of what opened, of what was refused
    bad: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole = self.path.read_bytes()


def tokenizer() -> TextTokenizer:
    """A byte-level one with some merges."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(a, b) for a in "abcde" for b in "fghij"][: N_TOKENS - len(letters) - 2]
    vocab = {token: id for id, token in enumerate([*letters, *(a + b for a, b in merges)])}
    made = Tokenizer(models.BPE(vocab, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    return TextTokenizer(made, Roles(bos=N_TOKENS - 2, ends=frozenset({N_TOKENS - 1})))


def sentence_pieces() -> dict[str, Any]:
    """The keys of the other kind of tokeniser, with bytes to fall back to."""
    words = [a + b for a in "▁abcde" for b in "fghij"]
    single = ["▁", *"abcdefghij"]
    named = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *single]
    tokens = [*named, *words[: N_TOKENS - len(named) - 3], "<s>", "</s>", "<|im_end|>"]
    n_plain = N_TOKENS - 257 - 3
    keys: dict[str, Any] = {
        "model": "llama",
        "tokens": tokens,
        "scores": [-float(place) for place in range(N_TOKENS)],
        "token_type": [2, *[6] * 256, *[1] * n_plain, 3, 3, 4],
        "bos_token_id": N_TOKENS - 3,
        "eos_token_id": N_TOKENS - 2,
        "add_space_prefix": True,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def gguf_cases(folder: Path) -> list[Case]:
    """A Llama stored in each way, and once with the other kind of tokeniser.

    The library quantises to few: the others get blocks of bytes.
    """
    scaling = RotaryScaling(factor=4.0, original_max_length=16)
    changed = SMALL | {"n_kv_heads": 2, "rotary_scaling": scaling}
    settings = DecoderSettings(**PRESETS["smollm2-135m"] | changed)
    model = build_decoder(settings, n_tokens=N_TOKENS, seed=SEED)
    metadata = gguf_metadata(tokenizer(), N_TOKENS)
    path = folder / "f32.gguf"
    write_gguf(path, model, settings, metadata, storage="F32")
    found = []
    for kind, storage in STORAGES.items():
        stored = folder / f"{storage.name.lower()}.gguf"
        if kind:
            restored(path, stored, kind)
        found.append(gguf_case(f"gguf {storage.name}", stored, path.stat().st_size))
    pieces = folder / "pieces.gguf"
    write_gguf(pieces, model, settings, sentence_pieces(), storage="F32")
    found.append(gguf_case("gguf F32, sentence pieces", pieces, pieces.stat().st_size))
    return found


def gguf_case(name: str, stored: Path, numbers: int) -> Case:
    """A file that is opened with its tokeniser."""
    header = min(each.begin for each in GGUF(stored).tensors.values())

    def open_it() -> None:
        file = GGUF(stored)
        file_tokenizer(file)
        read_gguf_model(file)

    return Case(name, stored, header, open_it, stored.stat().st_size, numbers)


def restored(path: Path, to: Path, kind: int) -> None:
    """The same file with matrices stored in another way, of zero bytes."""
    source = GGUF(path)
    writer = gguf.GGUFWriter(to, "llama")
    for key, value in source.metadata.items():
        if key == "general.architecture":
            continue
        if isinstance(value, str | bool | int | float):
            kinds = {bool: "bool", int: "uint32", float: "float32", str: "string"}
            getattr(writer, f"add_{kinds[type(value)]}")(key, value)
        else:
            writer.add_array(key, value.tolist() if isinstance(value, np.ndarray) else list(value))
    for name, stored in source.tensors.items():
        if len(stored.shape) == 1:
            writer.add_tensor(name, source.tensor(name).numpy())
            continue
        rows, width = stored.shape
        n_bytes = width // STORAGES[kind].block * STORAGES[kind].n_bytes
        blocks = np.zeros((rows, n_bytes), np.uint8)
        writer.add_tensor(name, blocks, raw_dtype=gguf.GGMLQuantizationType(kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def families() -> dict[str, tuple[Any, Any]]:
    """A small model of each family with its settings."""
    plain = {"n_kv_heads": None}
    gpt = DecoderSettings(**PRESETS["gpt2"] | SMALL | plain)
    llama = DecoderSettings(**PRESETS["smollm2-135m"] | SMALL | plain)
    bert = EncoderSettings(**PRESETS["bert-tiny"] | SMALL)
    sizes = {key: value for key, value in SMALL.items() if key != "n_layers"}
    marian = TransformerSettings(
        **PRESETS["transformer-base"] | sizes | {"n_encoder_layers": 1, "n_decoder_layers": 1}
    )
    return {
        "gpt2": (build_decoder(gpt, n_tokens=N_TOKENS, seed=SEED), gpt),
        "llama": (build_decoder(llama, n_tokens=N_TOKENS, seed=SEED), llama),
        "bert": (build_masked(bert, n_tokens=N_TOKENS, seed=SEED), bert),
        "marian": (build(marian, n_source=N_TOKENS, n_target=N_TOKENS, seed=SEED), marian),
    }


def folder_cases(folder: Path) -> list[Case]:
    """One of each family as folders, of which the tensors or the config are mutated."""
    found = []
    for name, (model, settings) in families().items():
        write_model(folder / name, model, settings)
        weights = folder / name / "model.safetensors"
        headers = {
            "model.safetensors": 8 + struct.unpack("<Q", weights.read_bytes()[:8])[0],
            "config.json": (folder / name / "config.json").stat().st_size,
        }
        for file, header in headers.items():

            def open_it(place: Path = folder / name) -> None:
                read_model(place)

            size = weights.stat().st_size
            found.append(Case(f"{name} {file}", folder / name / file, header, open_it, size, size))
    return found


def mutated(whole: bytes, header: int, draw: random.Random) -> bytes:
    """The bytes with some changes, most of them in the header."""
    data = bytearray(whole)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        size = len(data)
        if not size:
            break
        place = draw.randrange(min(header, size) if draw.random() < 0.9 else size)
        match draw.randrange(8):
            case 0:
                data[place] ^= 1 << draw.randrange(8)
            case 1:
                data[place] = draw.randrange(256)
            case 2:
                number = struct.pack("<Q", draw.choice(NUMBERS))[: draw.choice((1, 2, 4, 8))]
                data[place : place + len(number)] = number
            case 3:
                del data[place : place + draw.choice((1, 4, 8, 64))]
            case 4:
                data[place:place] = data[place : place + draw.choice((1, 4, 8, 64))]
            case 5:
                other = draw.randrange(min(header, size))
                length = draw.choice((1, 4, 8, 32))
                data[place : place + length] = data[other : other + length]
            case 6:  # a number in a text
                digits = list(re.finditer(rb"\d+", bytes(data[place : place + 4096])))
                if digits:
                    begin, end = draw.choice(digits).span()
                    text = str(draw.choice((-1, *NUMBERS, 1e300))).encode()
                    data[place + begin : place + end] = text
            case 7:
                if draw.random() < 0.3:
                    del data[place:]
    return bytes(data)


def peak(work: Callable[[], object]) -> tuple[float, str, str | None]:
    """Bytes of resident memory that work added at most, how it ended, and what should not be."""
    LIBC.malloc_trim(0)  # what was freed before must not hide what is taken now
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the high-water mark
    before = resident("VmRSS")
    bad = None
    try:
        work()
        outcome = "opened"
    except UserError as error:
        outcome = "refused"
        if "\n" in str(error) or len(str(error)) > 2000:
            bad = f"a message of {len(str(error))} letters: {str(error)[:200]!r}"
    except BaseException:
        outcome, bad = "broke", traceback.format_exc(limit=-3)
    return resident("VmHWM") - before, outcome, bad


def resident(name: str) -> float:
    """A line of /proc/self/status, in bytes."""
    status = Path("/proc/self/status").read_text("ascii")
    match = re.search(rf"{name}:\s+(\d+) kB", status)
    assert match
    return int(match[1]) * 1024


def fuzz(case: Case, n: int, seed: int) -> None:
    """Open `n` mutations of a file."""
    draw = random.Random(f"{case.name} {seed}")
    for _ in range(3):
        peak(case.open)  # what is loaded and allocated once
    for number in range(n):
        data = mutated(case.whole, case.header, draw)
        case.path.write_bytes(data)
        added, outcome, bad = peak(case.open)
        case.outcomes[outcome] += 1
        share = added / (case.numbers if outcome == "opened" else case.size)
        case.peaks[outcome] = max(case.peaks.get(outcome, 0.0), share)
        if bad is not None and len(case.bad) < 10:
            case.bad.append(f"{case.name}, mutation {number}: {bad}")
    case.path.write_bytes(case.whole)


def main() -> None:
    """Fuzz, write, say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000, help="mutated files in all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        cases = gguf_cases(folder) + folder_cases(folder)
        for case in cases:
            fuzz(case, -(-arguments.n // len(cases)), arguments.seed)
            print(case.name, dict(case.outcomes), case.peaks, *case.bad, sep="\n  ", flush=True)
    finally:
        shutil.rmtree(folder)
    results: dict[str, Any] = {
        case.name: {
            "bytes": case.size,
            "files": dict(case.outcomes),
            "most_memory_over_size": {kind: round(share, 2) for kind, share in case.peaks.items()},
            "bad": case.bad,
        }
        for case in cases
    }
    record = {
        "machine": environment(),
        "command": f"fuzz_weights.py --n {arguments.n} --seed {arguments.seed}",
        "seconds": round(time.perf_counter() - began),
        "files": sum(case.outcomes.total() for case in cases),
        "cases": results,
    }
    write_atomic(arguments.json, to_json(record))


if __name__ == "__main__":
    main()
