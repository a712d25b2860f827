"""The GGUF file, read with every count, length and offset held against the file's own size.

Nothing that the file says is believed before it fits: a crafted file gives a clean error, not an
allocation. The format is that of the ggml project's specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from headway.base.errors import UserError, visible
from headway.base.optional import optional

MAGIC = b"GGUF"
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20
LONGEST_NAME = 256  # bytes of the name of a key or a tensor; ggml itself takes 64
_SCALARS = {  # type of a value -> its form for struct
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Storage:
    """How numbers are stored: in blocks of so many, each of so many bytes.

    A block has floats of the type `floats` at these places; the rest are whole numbers.
    """

    name: str
    block: int
    n_bytes: int
    floats: str = "<f2"
    places: tuple[int, ...] = (0,)


STORAGES = {
    0: Storage("F32", 1, 4, "<f4"),
    1: Storage("F16", 1, 2),
    2: Storage("Q4_0", 32, 18),
    3: Storage("Q4_1", 32, 20, places=(0, 2)),
    8: Storage("Q8_0", 32, 34),
    12: Storage("Q4_K", 256, 144, places=(0, 2)),
    13: Storage("Q5_K", 256, 176, places=(0, 2)),
    14: Storage("Q6_K", 256, 210, places=(208,)),
    30: Storage("BF16", 1, 2, "bfloat16"),
}


@dataclass(frozen=True)
class Stored:
    """A tensor in the file: its shape, slowest axis first, how and where it is stored."""

    shape: tuple[int, ...]
    kind: int
    begin: int
    end: int


class Strings(Sequence[str]):
    """An array of texts, decoded when asked for: a file of many short ones stays small."""

    def __init__(self, data: memoryview, places: np.ndarray[Any, Any], where: str) -> None:
        self._data, self._places, self._where = data, places, where

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._text(begin) for begin in self._places[index]]
        return self._text(self._places[index])

    def __iter__(self) -> Iterator[str]:
        return (self._text(begin) for begin in self._places)

    def _text(self, begin: int) -> str:
        (length,) = struct.unpack_from("<Q", self._data, begin)
        try:
            return str(self._data[begin + 8 : begin + 8 + length], "utf-8")
        except UnicodeDecodeError:
            raise UserError("a text in it is not UTF-8", where=self._where) from None


class GGUF:
    """A GGUF file: `metadata` by key, `tensors` by name; nothing but the header is read at once.

    Raises UserError for what is no GGUF file, another version, and whatever does not fit.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            raw = np.memmap(path, dtype=np.uint8, mode="r") if size else np.zeros(0, np.uint8)
        except OSError as error:
            raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from None
        reader = _Reader(memoryview(raw), str(path))  # type: ignore[arg-type]
        if bytes(reader.data[:4]) != MAGIC:
            todo = "copy it again, or name another"
            raise UserError("not a GGUF file", where=str(path), todo=todo)
        reader.place = 4
        version = reader.scalar("<I")
        if version not in (2, 3):
            what = f"version {version} of the format, or another byte order"
            raise UserError(f"{what}; Headway reads 2 and 3, little-endian", where=str(path))
        n_tensors, n_values = reader.scalar("<Q"), reader.scalar("<Q")
        reader.room(n_tensors, 8 + 4 + 8 + 4 + 8, "tensors")  # name, axes, one axis, kind, offset
        reader.room(n_values, 8 + 4 + 1, "keys")
        self.metadata: dict[str, Any] = {}
        for _ in range(n_values):
            key = reader.text(LONGEST_NAME)
            if key in self.metadata:
                raise reader.broken(f"the key '{key}' twice")
            self.metadata[key] = reader.value(reader.scalar("<I"))
        self.tensors = _tensors(reader, n_tensors, self._alignment(reader))

    def tensor(self, name: str) -> Tensor:
        """A tensor in float32. Raises UserError if it holds what is not a number."""
        gguf = optional("gguf", extra="gguf", where=str(self.path))
        blocks, stored = self._blocks(name), self.tensors[name]
        numbers = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(stored.kind))
        return torch.from_numpy(np.asarray(numbers, dtype=np.float32)).reshape(stored.shape)

    def check(self, name: str) -> None:
        """Raise UserError if a tensor holds what is not a number; nothing is kept of it."""
        self._blocks(name)

    def _blocks(self, name: str) -> np.ndarray[Any, Any]:
        """The bytes of a tensor, (…, bytes of a row), whose floats are numbers."""
        stored = self.tensors[name]
        n_bytes = stored.end - stored.begin
        # read, not mapped: pages that were looked at once would stay in memory
        raw = np.fromfile(self.path, np.uint8, n_bytes, offset=stored.begin)
        if len(raw) < n_bytes:
            raise UserError("it became shorter while it was read", where=str(self.path))
        storage = STORAGES[stored.kind]
        if not _all_numbers(raw.reshape(-1, storage.n_bytes), storage):
            raise UserError(f"'{visible(name)}' holds what is not a number", where=str(self.path))
        return raw.reshape(*stored.shape[:-1], -1)

    def _alignment(self, reader: _Reader) -> int:
        alignment = self.metadata.get("general.alignment", 32)
        fits = isinstance(alignment, int) and 0 < alignment <= MAX_ALIGNMENT
        if not fits or alignment & (alignment - 1):
            raise reader.broken(f"an alignment of {alignment}")
        return int(alignment)


def _all_numbers(blocks: np.ndarray[Any, Any], storage: Storage) -> bool:
    """Whether no float in the blocks (N, bytes) is infinite or none at all.

    What is made of them is a number then: float32 has room for 16 bits times a few.
    """
    if storage.floats == "bfloat16":
        exponents = blocks.view("<u2") & 0x7F80
        return not bool((exponents == 0x7F80).any())
    width = np.dtype(storage.floats).itemsize
    return all(
        bool(np.isfinite(blocks[:, place : place + width].copy().view(storage.floats)).all())
        for place in storage.places
    )


class _Reader:
    """A place in the bytes that never leaves them."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data, self.where, self.place = data, where, 0

    def broken(self, what: str) -> UserError:
        """What is wrong with the file."""
        return UserError(
            f"a broken GGUF file: {visible(what)}", where=self.where, todo="copy it again"
        )

    def room(self, n: int, n_bytes: int, what: str) -> None:
        """Raise UserError unless `n` things of at least so many bytes can still come."""
        if n > (len(self.data) - self.place) // n_bytes:
            raise self.broken(f"it cannot hold {n:,} {what}")

    def scalar(self, form: str) -> Any:
        """One number."""
        size = struct.calcsize(form)
        self.room(1, size, "more numbers")
        (value,) = struct.unpack_from(form, self.data, self.place)
        self.place += size
        return value

    def skip_text(self) -> int:
        """Go past a text; gives where it began."""
        begin = self.place
        length = self.scalar("<Q")
        self.room(length, 1, "letters")
        self.place += length
        return begin

    def text(self, longest: int | None = None) -> str:
        """One text, of at most so many bytes."""
        begin = self.skip_text()
        if longest is not None and self.place - begin - 8 > longest:
            raise self.broken(f"a name of {self.place - begin - 8:,} bytes")
        return Strings(self.data, np.array([begin]), self.where)[0]

    def value(self, kind: int) -> Any:
        """One value: a number, a text, or an array of either."""
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind != _ARRAY:
            raise self.broken(f"a value of type {kind}")
        inner, n = self.scalar("<I"), self.scalar("<Q")
        if inner == _STRING:
            self.room(n, 8, "texts")
            places = np.fromiter((self.skip_text() for _ in range(n)), np.int64, n)
            return Strings(self.data, places, self.where)
        if inner not in _SCALARS:
            raise self.broken(f"an array of values of type {inner}")
        dtype = np.dtype(_SCALARS[inner]).newbyteorder("<")
        self.room(n, dtype.itemsize, "numbers")
        begin, self.place = self.place, self.place + n * dtype.itemsize
        return np.frombuffer(self.data, dtype, n, begin)


def _tensors(reader: _Reader, n_tensors: int, alignment: int) -> dict[str, Stored]:
    """The table of tensors, each of which must lie in the file."""
    listed = []
    for _ in range(n_tensors):
        name = reader.text(LONGEST_NAME)
        n_axes = reader.scalar("<I")
        if not 1 <= n_axes <= MAX_DIMENSIONS:
            raise reader.broken(f"'{name}' has {n_axes} axes")
        axes = [reader.scalar("<Q") for _ in range(n_axes)]
        listed.append((name, axes, reader.scalar("<I"), reader.scalar("<Q")))
    base = -(-reader.place // alignment) * alignment
    found: dict[str, Stored] = {}
    for name, axes, kind, offset in listed:
        storage = STORAGES.get(kind)
        if storage is None:
            known = ", ".join(each.name for each in STORAGES.values())
            what = f"'{visible(name)}' is stored as type {kind}; Headway reads {known}"
            raise UserError(what, where=reader.where)
        if name in found:
            raise reader.broken(f"the tensor '{name}' twice")
        if min(axes) < 1 or axes[0] % storage.block or offset % alignment:
            raise reader.broken(f"'{name}' has axes {axes} at {offset}")
        n_bytes = math.prod(axes) // storage.block * storage.n_bytes
        begin = base + offset
        if begin + n_bytes > len(reader.data):
            raise reader.broken(f"'{name}' goes beyond its end")
        found[name] = Stored(tuple(reversed(axes)), kind, begin, begin + n_bytes)
    return found
