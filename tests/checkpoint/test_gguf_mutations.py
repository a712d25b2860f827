"""Mutated tokenisers of GGUF files, of both kinds: they open, or give clean errors."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.models.build import build_decoder
from headway.runs.text_tokenizers import file_tokenizer
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS

pytest.importorskip("gguf", reason="gguf is not installed")

SMALL = {"n_layers": 1, "d_model": 32, "d_feed_forward": 32, "n_heads": 2, "n_kv_heads": 1}
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIALS = ["<s>", "</s>", "<|im_end|>"]
KINDS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "pre": "llama-bpe",
        "tokens": [*LETTERS, "ab", "abc", *SPECIALS],
        "merges": ["a b", "ab c"],
        "token_type": [1] * 258 + [3, 3, 4],
    },
    "llama": {
        "tokens": ["<unk>", *BYTES, *"▁abcd", "ab", "abc", "▁abc", *SPECIALS],
        "scores": [0.0] * 257 + [-9.0] * 5 + [-1.0, -2.0, -3.0, 0.0, 0.0, 0.0],
        "token_type": [2] + [6] * 256 + [1] * 8 + [3, 3, 4],
    },
}
NUMBERS = [0, 1, 127, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]


def file_of(kind: str, path: Path) -> Path:
    table = KINDS[kind]
    n_tokens = len(table["tokens"])
    ids = {"bos_token_id": n_tokens - 3, "eos_token_id": n_tokens - 2, "padding_token_id": 0}
    more = {"model": kind, "add_bos_token": True, "add_space_prefix": kind == "llama"}
    metadata = {f"tokenizer.ggml.{key}": value for key, value in (table | ids | more).items()}
    settings = DecoderSettings(**PRESETS["smollm2-135m"] | SMALL)
    model = build_decoder(settings, n_tokens=n_tokens, seed=1)
    write_gguf(path, model, settings, metadata, storage="F32")
    return path


def mutated(whole: bytes, header: int, draw: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(draw.choice((1, 1, 2, 8))):
        place = draw.randrange(header)
        match draw.randrange(4):
            case 0:
                data[place] ^= 1 << draw.randrange(8)
            case 1:
                number = struct.pack("<Q", draw.choice(NUMBERS))[: draw.choice((1, 4, 8))]
                data[place : place + len(number)] = number
            case 2:  # another token, type or score, or a part of one
                other, length = draw.randrange(header), draw.choice((1, 4, 12))
                data[place : place + length] = data[other : other + length]
            case 3:
                data[place] = draw.choice(b"\x00a<>\xff")
    return bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_tokenisers_open_or_are_refused(kind: str, tmp_path: Path) -> None:
    path = file_of(kind, tmp_path / "a.gguf")
    file = GGUF(path)
    whole, header = path.read_bytes(), min(each.begin for each in file.tensors.values())
    assert len(file_tokenizer(file).roles.ends) == 2
    draw, outcomes = random.Random(kind), {"opened": 0, "refused": 0}
    for _ in range(500):
        path.write_bytes(mutated(whole, header, draw))
        try:
            made = file_tokenizer(GGUF(path))
        except UserError:
            outcomes["refused"] += 1
        else:
            outcomes["opened"] += 1
            made.prompts(["ab <s> é"])
    assert min(outcomes.values()) > 50, outcomes
