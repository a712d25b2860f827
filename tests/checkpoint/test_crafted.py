"""Weights whose files claim what they do not hold: one message, and no memory for the claim."""

from __future__ import annotations

import json
import random
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.models.build import build, build_decoder, build_masked
from headway.settings.model import DecoderSettings, EncoderSettings, TransformerSettings
from headway.settings.presets import PRESETS

SMALL = {"d_model": 24, "d_feed_forward": 40, "n_heads": 3, "max_length": 20}
LLAMA = DecoderSettings(
    **PRESETS["smollm2-135m"] | SMALL | {"n_layers": 1, "n_kv_heads": None, "d_head": 8}
)
MARIAN = TransformerSettings(**PRESETS["transformer-tiny"] | SMALL)


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    write_model(tmp_path / "llama", build_decoder(LLAMA, n_tokens=30), LLAMA)
    return tmp_path / "llama"


def change(folder: Path, **changed: Any) -> None:
    table = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(table | changed), encoding="utf-8")


def test_sizes_that_are_only_claimed_take_no_memory(llama: Path, tmp_path: Path) -> None:
    change(llama, hidden_size=2**30, head_dim=8)
    with pytest.raises(UserError, match=r"a weight of [\d,]+ numbers, but all tensors have"):
        read_model(llama)
    change(llama, hidden_size=24, num_attention_heads=2**40, num_key_value_heads=1, head_dim=2**40)
    with pytest.raises(UserError, match="sizes that no tensor can have"):
        read_model(llama)
    change(llama, num_attention_heads=0)
    with pytest.raises(UserError, match="n_heads"):
        read_model(llama)
    write_model(tmp_path / "marian", build(MARIAN, n_source=30, n_target=30), MARIAN)
    change(tmp_path / "marian", d_model=3 * 2**30)
    with pytest.raises(UserError, match=r"a weight of [\d,]+ numbers|no tensor can have"):
        read_model(tmp_path / "marian")


@pytest.mark.parametrize(
    ("key", "number", "told"),
    [
        ("llama.attention.head_count", 2**26, r"a weight of [\d,]+ numbers"),
        ("llama.attention.head_count", 0, "n_heads"),
        ("llama.block_count", 2**31, r"2,147,483,648 layers, but"),
        ("llama.feed_forward_length", 2**31, r"a weight of [\d,]+ numbers"),
    ],
)
def test_numbers_in_a_gguf(tmp_path: Path, key: str, number: int, told: str) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    path = tmp_path / "a.gguf"
    write_gguf(path, build_decoder(LLAMA, n_tokens=30), LLAMA, {}, storage="F32")
    data = path.read_bytes()
    place = data.index(key.encode()) + len(key) + 4
    changed = data[:place] + struct.pack("<I", number) + data[place + 4 :]
    if key.endswith("head_count"):  # of keys and values as well
        name = b"llama.attention.head_count_kv"
        place = changed.index(name) + len(name) + 4
        changed = changed[:place] + struct.pack("<I", number) + changed[place + 4 :]
    path.write_bytes(changed)
    with pytest.raises(UserError, match=told):
        read_gguf_model(GGUF(path))


def test_a_bert_has_segments(tmp_path: Path) -> None:
    settings = EncoderSettings(**PRESETS["bert-tiny"] | SMALL)
    write_model(tmp_path / "bert", build_masked(settings, n_tokens=30), settings)
    change(tmp_path / "bert", type_vocab_size=0)
    with pytest.raises(UserError, match="a BERT has segments"):
        read_model(tmp_path / "bert")
    none = EncoderSettings(**PRESETS["bert-tiny"] | SMALL | {"n_segments": 0})
    with pytest.raises(UserError, match="no Hugging Face model computes"):
        write_model(tmp_path / "none", build_masked(none, n_tokens=30), none)


def test_names_without_end_are_cut(tmp_path: Path) -> None:
    name = b"\x07" * 100_000
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(name)) + name
    (tmp_path / "a.gguf").write_bytes(head + bytes(64))
    with pytest.raises(UserError, match="a name of 100,000 bytes"):
        GGUF(tmp_path / "a.gguf")
    assert len(str(UserError("a" * 10**6))) < 2000


def test_mutated_folders_give_clean_errors(llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path / "a")
    tensors = (llama / "model.safetensors").read_bytes()
    wholes = {"config.json": (llama / "config.json").read_bytes(), "model.safetensors": tensors}
    heads = {"config.json": len(wholes["config.json"])}
    heads["model.safetensors"] = 8 + struct.unpack("<Q", tensors[:8])[0]
    draw, told = random.Random(1), list[str]()
    for _ in range(500):
        name = draw.choice(list(wholes))
        data = bytearray(wholes[name])
        for _ in range(draw.choice((1, 2, 8))):
            place = draw.randrange(heads[name])
            number = re.search(rb"\d+", bytes(data[place : place + 200]))
            if number is not None and draw.random() < 0.5:
                text = str(draw.choice((0, -1, 1, 2**31, 2**63, 1e300))).encode()
                data[place + number.start() : place + number.end()] = text
            else:
                data[place] = draw.randrange(256)
        (tmp_path / "a" / name).write_bytes(data)
        try:
            read_model(tmp_path / "a")
        except UserError as error:
            told.append(str(error))
        (tmp_path / "a" / name).write_bytes(wholes[name])
    assert len(told) > 200
    assert not any("\n" in message for message in told)
