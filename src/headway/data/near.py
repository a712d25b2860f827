"""Texts that are nearly the same as one before."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.optional import optional

ALIKE = 0.8  # of their runs of words in common
_RUN = 5  # words
_HASHES = 128
_BANDS = 16, 8  # so many of so many hashes each: 95 % of the pairs at the border share one


class NearSeen:
    """Texts by the hashes of their runs of five words, case and blanks aside.

    MinHash (Broder, 1997) estimates the share of the runs that two texts have in common with a
    standard error of 0.04; buckets of hashes say which texts to compare (Leskovec et al., 2014,
    section 3.4). What is found is a function of the texts and their order alone. Needs the extra
    `near`; UserError without it, naming the recipe's `key`.
    """

    def __init__(self, key: str) -> None:
        datasketch = optional("datasketch", extra="near", where=key)
        self._make: Any = datasketch.MinHash
        self._buckets: Any = datasketch.MinHashLSH(num_perm=_HASHES, params=_BANDS)
        self._kept: list[npt.NDArray[np.uint32]] = []

    def add(self, text: str) -> bool:
        """Whether a text is like one that was put in; else it is put in."""
        made = self._make(num_perm=_HASHES)
        made.update_batch(_runs(text))
        hashes = made.hashvalues.astype(np.uint32)
        near = (self._kept[place] for place in self._buckets.query(made))
        if any(np.mean(hashes == other) >= ALIKE for other in near):
            return True
        self._buckets.insert(len(self._kept), made)
        self._kept.append(hashes)
        return False


def _runs(text: str) -> list[bytes]:
    """The runs of five words of a text, each once; a shorter text is one run."""
    words = text.casefold().split()
    last = max(1, len(words) - _RUN + 1)
    runs = {" ".join(words[start : start + _RUN]) for start in range(last)}
    return [run.encode("utf-8", "surrogatepass") for run in runs]
