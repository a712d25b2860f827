"""How many keys a query meets in the layers of a stack: all, a window's, or mixtures of all."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from headway.settings.model import EncoderSettings, StackSettings

# As headway.nn has them: queries of a chunk, first keys that are met together, weights at a time,
# and times the width of a window that a text is, from which a layer is computed in a band
LEAST, LINE, SLAB, BAND_CROSSING = 64, 16, 2**18, 4

# Weights a head, T·S, from which rows of documents are attended to a block at a time on a CPU: what
# headway.nn.attend chooses by, and what memory is counted by (benchmarks/attention.py)
CPU_CROSSING_DOCUMENTS = {"training": 2048 * 2048, "inference": 4096 * 4096}
SIDE = 512  # queries of such a block, and keys: 1 MB of weights a head


class Band(NamedTuple):
    """Neighbouring queries that meet what any of them sees: headway.nn.banded.

    A `chunk` of them meets as many keys, those that stand `around`, and the `first` of all.
    """

    chunk: int
    around: int
    first: int

    @classmethod
    def of(cls, left: int, right: int, first: int, length: int) -> Band:
        """That of a window with so many keys to the left and the right of a query."""
        chunk = max(LEAST, -(-(left + right) // (4 * LEAST)) * LEAST)
        around = sum(-(-side // chunk) * chunk for side in (left, right))
        return cls(chunk, around, min(length, -(-first // LINE) * LINE))

    @property
    def met(self) -> int:
        """Keys that a query meets."""
        return self.chunk + self.around + self.first

    def queries(self, length: int) -> int:
        """Those of a text, with what fills up its last chunk."""
        return -(-length // self.chunk) * self.chunk


class Layers(NamedTuple):
    """Layers of one reach: how many, and the keys that a query meets.

    These are `mixed` of all keys; or all of a `band`; or all, with a mask where the query does not
    see all (`masked`). `every` tokens see all by projections of their own.
    """

    n: int
    keys: float
    mixed: bool = False
    band: Band | None = None
    masked: bool = False
    every: int = 0


def layers(settings: StackSettings, n_layers: int, length: int, *, causal: bool) -> list[Layers]:
    """The layers of a stack in texts of `length` tokens, as they are computed.

    What is not in a band meets all keys, whatever it may see of them.
    """
    if isinstance(settings, EncoderSettings) and settings.n_keys is not None:
        return [Layers(n_layers, settings.n_keys, mixed=True)]
    every = settings.n_global if isinstance(settings, EncoderSettings) else 0
    found = []
    for (width, apart), n in Counter(windows(settings, n_layers)).items():
        left, right = (width - 1, 0) if causal else (width // 2, width // 2)
        if not width:
            found.append(Layers(n, length))
        elif settings.score == "additive" or BAND_CROSSING * apart * (left + right) > length:
            found.append(Layers(n, length, masked=True, every=every))
        else:
            part = -(-length // apart)  # each remainder is a text of its own: headway.nn.dilated
            band = Band.of(left, right, every, part)
            keys = band.met * band.queries(part) / part
            found.append(Layers(n, keys, band=band, every=every))
    return found


def seen(settings: StackSettings, n_layers: int, length: int, *, causal: bool) -> list[Layers]:
    """The same with the keys that a query sees, the mean of a text's."""
    if isinstance(settings, EncoderSettings) and settings.n_keys is not None:
        return [Layers(n_layers, settings.n_keys, mixed=True)]
    found = []
    for (width, apart), n in Counter(windows(settings, n_layers)).items():
        if causal:
            keys = 1 + _before(width - 1 if width else length, length)
        else:
            reach, apart = (width // 2, apart) if width else (length, 1)
            keys = 1 + 2 * _before(reach, length, apart)
        found.append(Layers(n, keys))
    return found


def widths(settings: StackSettings, n_layers: int) -> list[int]:
    """The reach of each layer."""
    return [width for width, _ in windows(settings, n_layers)]


def windows(settings: StackSettings, n_layers: int) -> list[tuple[int, int]]:
    """The reach of each layer, and how far apart its keys are."""
    apart = settings.dilation if isinstance(settings, EncoderSettings) else (1,)
    return [
        (settings.reach[layer % len(settings.reach)], apart[layer % len(apart)])
        for layer in range(n_layers)
    ]


def _before(reach: int, length: int, apart: int = 1) -> float:
    """How many keys stand before a query, at most `reach` of them: the mean of `length` queries.

    Keys are `apart`, so that the text is as many shorter ones.
    """
    part, longer = divmod(length, apart)
    total = 0.0
    for n, times in ((part + 1, longer), (part, apart - longer)):
        near = min(reach, max(0, n - 1))
        total += times * (n * near - near * (near + 1) / 2)
    return total / length
