"""Encoded rows on the disk: the same batches, flat memory, nothing left behind."""

from __future__ import annotations

import errno
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headway.base.errors import UserError
from headway.batches import on_disk, pairs
from headway.batches.on_disk import SideWriter
from headway.batches.packed import PackedBatches, Packing
from headway.batches.pairs import EncodedSide
from headway.batches.sentences import SentenceRows


def resident_file_bytes() -> int:
    """Pages of mapped files that count as this process's memory."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("RssFile:")[1].split()[0])


@pytest.mark.parametrize("most", [0, 100, 2**22])
def test_rows_on_the_disk_are_those_in_memory(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(on_disk, "HELD", most)
    random = np.random.Generator(np.random.PCG64(1))
    rows = [random.integers(0, 2**31 - 1, n).tolist() for n in random.integers(0, 9, 50)]
    writer = SideWriter()
    for start in range(0, 50, 7):
        some = rows[start : start + 7]
        writer.append(
            np.array([id for row in some for id in row], np.int32), np.array(list(map(len, some)))
        )
    stored, held = writer.side(), EncodedSide.of(rows)
    assert list(tmp_path.iterdir()) == []  # it has no name: even a kill leaves nothing
    assert (stored.pages is None) is (most == 2**22)
    assert np.array_equal(stored.starts, held.starts)
    assert np.array_equal(stored.lengths, held.lengths)
    for chosen in (np.arange(50), np.array([3, 3, 49]), np.array([0])):
        for one, other in zip(stored.pad(chosen, 5), held.pad(chosen, 5), strict=True):
            assert torch.equal(one, other)


def test_no_rows_and_empty_rows() -> None:
    assert len(SideWriter().side().lengths) == 0
    writer = SideWriter()
    writer.append(np.zeros(0, np.int32), np.zeros(3, np.int64))
    ids, real = writer.side().pad(np.array([0, 2]), 0)
    assert ids.shape == real.shape == (2, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("released", [True, False])
def test_pages_that_were_read_do_not_stay(released: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: random rows of 48 MB; without the release, most of it becomes resident."""
    monkeypatch.setattr(pairs, "_CAN_RELEASE", released)
    n, width = 300_000, 40
    writer = SideWriter()
    for block in range(10):
        ids = np.full(n * width // 10, block, np.int32)
        writer.append(ids, np.full(n // 10, width))
    side = writer.side()
    random = np.random.Generator(np.random.PCG64(1))
    before = resident_file_bytes()
    for _ in range(40):
        ids, _real = side.pad(random.integers(0, n, 100), 0)
        assert ids.shape == (100, width)
    grown = resident_file_bytes() - before
    assert grown < 8e6 if released else grown > 20e6


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_over_a_large_file_of_tokens() -> None:
    """E6: a pass over 80 MB of ids."""
    writer = SideWriter()
    for block in range(20):
        writer.append(np.full(1_000_000, block, np.int32), np.full(1000, 1000))
    batches = PackedBatches([Packing(writer.side(), 512, seed=(1, 0))], (1.0,), 16 * 512, 1, pad=0)
    before = resident_file_bytes()
    for rows in batches.epoch(0)[:600]:
        batches.batch(0, rows)
    assert resident_file_bytes() - before < 8e6


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_over_a_large_file_of_sentences() -> None:
    """E6: rows of two texts are planned and read in 80 MB of ids."""
    writer = SideWriter()
    for block in range(20):
        ids = np.full(1_000_000, block, np.int32)
        ids[::50] = ~ids[::50]
        writer.append(ids, np.full(1000, 1000))
    side, before = writer.side(), resident_file_bytes()
    rows = SentenceRows(side, 509, seed=(1, 0), pairs=True)
    assert resident_file_bytes() - before < 8e6
    for place in range(0, rows.n_rows, 32):
        for each in range(place, min(place + 32, rows.n_rows)):
            rows.row(each)
        rows.release()
    assert resident_file_bytes() - before < 8e6


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: SimpleNamespace(write=full))
    monkeypatch.setattr(on_disk, "HELD", 0)
    writer = SideWriter()
    with pytest.raises(UserError, match="no space left on the disk for the encoded") as caught:
        writer.append(np.zeros(3, np.int32), np.array([3]))
    assert caught.value.where == tempfile.gettempdir()
    assert "TMPDIR" in str(caught.value)
