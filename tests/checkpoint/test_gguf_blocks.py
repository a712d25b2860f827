"""Numbers stored in blocks come out as the gguf package's own quants give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_file import GGUF, STORAGES

gguf = pytest.importorskip("gguf", reason="gguf is not installed")

# Where a block has its scales of 16 bits; every other byte may be anything
SCALES = {
    "F16": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
KINDS = {storage.name: kind for kind, storage in STORAGES.items()}
ROWS, BLOCKS = 5, 3


def blocks(name: str) -> np.ndarray:
    """Random blocks (rows, bytes) whose scales are numbers."""
    draw, storage = np.random.default_rng(1), STORAGES[KINDS[name]]
    found = draw.integers(0, 256, (ROWS, BLOCKS, storage.n_bytes), dtype=np.uint8)
    for place in SCALES[name]:
        scales = draw.normal(size=(ROWS, BLOCKS, 1)).astype(np.float16)
        found[:, :, place : place + 2] = scales.view(np.uint8)
    return found.reshape(ROWS, -1)


def write(path: Path, name: str, data: np.ndarray) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    kind = gguf.GGMLQuantizationType(KINDS[name])
    writer.add_tensor("first", np.arange(7, dtype=np.float32))
    writer.add_tensor("a", data, raw_dtype=kind)
    writer.add_tensor("last", np.arange(3, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("name", SCALES)
def test_random_blocks(tmp_path: Path, name: str) -> None:
    data = blocks(name)
    write(tmp_path / "a.gguf", name, data)
    file = GGUF(tmp_path / "a.gguf")
    found = file.tensor("a")
    assert found.shape == (ROWS, BLOCKS * STORAGES[KINDS[name]].block)
    wanted = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(KINDS[name]))
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), wanted)
    assert len(found.unique()) > ROWS
    assert file.tensor("first").tolist() == [*range(7)]
    assert file.tensor("last").tolist() == [*range(3)]


def test_q4_k_by_hand(tmp_path: Path) -> None:
    """256 numbers in 8 parts: each a scale and a least value of 6 bits, and 4 bits a number."""
    data = blocks("Q4_K")
    write(tmp_path / "a.gguf", "Q4_K", data)
    found = GGUF(tmp_path / "a.gguf").tensor("a").view(ROWS, BLOCKS, 8, 32)
    for row, block in ((0, 0), (ROWS - 1, BLOCKS - 1)):
        raw = data.reshape(ROWS, BLOCKS, -1)[row, block]
        scale, least = (float(each) for each in raw[:4].view(np.float16))
        packed, nibbles = raw[4:16].astype(int), raw[16:].reshape(4, 32)
        for part in range(8):
            if part < 4:
                six, offset = packed[part] & 63, packed[part + 4] & 63
            else:
                high = packed[part - 4] >> 6, packed[part] >> 6
                six = (packed[part + 4] & 15) | high[0] << 4
                offset = (packed[part + 4] >> 4) | high[1] << 4
            numbers = nibbles[part // 2] >> 4 if part % 2 else nibbles[part // 2] & 15
            wanted = scale * six * numbers.astype(float) - least * offset
            np.testing.assert_allclose(
                found[row, block, part].numpy(), wanted, rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize("name", SCALES)
def test_a_scale_that_is_no_number_is_told(tmp_path: Path, name: str) -> None:
    data = blocks(name)
    data.reshape(ROWS, BLOCKS, -1)[2, 1, SCALES[name][0] :][:2] = (0x00, 0x7E)
    write(tmp_path / "a.gguf", name, data)
    with pytest.raises(UserError, match="'a' holds what is not a number"):
        GGUF(tmp_path / "a.gguf").tensor("a")
