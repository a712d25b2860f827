"""Encoded rows that are too many for the memory: in a file without a name, mapped when read."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np
import numpy.typing as npt

from headway.base.errors import UserError
from headway.base.files import NO_ROOM
from headway.batches.order import Rows
from headway.batches.pairs import EncodedSide

HELD = 2**22  # ids that stay in memory (16 MB): most data sets need no file


class SideWriter:
    """Takes rows of ids block by block; more than `HELD` go to a file that has no name.

    It lies in the system's folder for such files ($TMPDIR). However the process ends, even by
    kill -9, nothing is left behind. Raises UserError if there is no room.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._blocks: list[npt.NDArray[np.int32]] = []
        self._lengths: list[npt.NDArray[np.int32]] = []

    def append(self, ids: npt.NDArray[np.int32], lengths: Rows) -> None:
        """Rows of those lengths, end to end."""
        self._blocks.append(ids)
        self._lengths.append(lengths.astype(np.int32))
        if self._file is not None or sum(map(len, self._blocks)) > HELD:
            self._write()

    def side(self) -> EncodedSide:
        """All rows so far, to read; nothing can be added any more."""
        starts = np.concatenate([np.zeros(1, np.int32), *self._lengths], dtype=np.int64)
        self._lengths.clear()
        np.cumsum(starts, out=starts)
        if self._file is None:
            return EncodedSide(np.concatenate([np.zeros(0, np.int32), *self._blocks]), starts)
        with self._file, _explained():
            self._file.flush()
            pages = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return EncodedSide(np.frombuffer(pages, np.int32), starts, pages)

    def _write(self) -> None:
        with _explained():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed by `side`
            for ids in self._blocks:
                self._file.write(ids.data)
        self._blocks.clear()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise UserError(
            f"{NO_ROOM[error.errno]} for the encoded training text",
            where=tempfile.gettempdir(),
            todo="free some, or set TMPDIR to a folder with more",
        ) from error
