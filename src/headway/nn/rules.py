"""The rules by which a query may look at keys, each boolean: True = may look.

They are asked for whole masks as well as for one query and one key, and say which keys they leave
out of a range, so that none of these has to be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor


class Rule(Protocol):
    """Whether queries may look at keys, by their rows of the batch and their positions."""

    def __call__(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Boolean, of three shapes that broadcast: one place of each, or all of them."""

    by_distance: ClassVar[bool]
    """Whether it goes by how far a key is from the query, and by nothing else."""

    @property
    def n_rows(self) -> int:
        """How many rows it tells apart; 1 if it is the same for all."""

    def span(self, first: int, last: int) -> tuple[int, int | None]:
        """From which key on, and before which, all lie that the queries `first` to `last` see."""

    def sees_all(self, queries: range, keys: range) -> bool:
        """True if each of those queries is known to see each of those keys."""


class _Alike:
    """A rule that is the same for all rows."""

    @property
    def n_rows(self) -> int:
        """One for all."""
        return 1


class _Anywhere:
    """A rule that does not go by position."""

    by_distance: ClassVar[bool] = False

    def span(self, first: int, last: int) -> tuple[int, int | None]:
        """All keys."""
        return 0, None

    def sees_all(self, queries: range, keys: range) -> bool:
        """It depends."""
        return False


@dataclass(frozen=True)
class Causal(_Alike):
    """No key after the query."""

    by_distance: ClassVar[bool] = True

    def __call__(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The same for all rows."""
        return key <= query

    def span(self, first: int, last: int) -> tuple[int, int | None]:
        """Up to the last query."""
        return 0, last + 1

    def sees_all(self, queries: range, keys: range) -> bool:
        """All of them came before."""
        return keys[-1] <= queries[0]


@dataclass(frozen=True)
class Window(_Alike):
    """Keys from `left` before the query to `right` after it, the query's own included.

    With `dilation` d only every d-th of them (Beltagy et al., 2020, section 3.1).
    """

    left: int
    right: int
    dilation: int = 1
    by_distance: ClassVar[bool] = True

    def __call__(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The same for all rows."""
        near = (key >= query - self.left) & (key <= query + self.right)
        return near if self.dilation == 1 else near & ((query - key) % self.dilation == 0)

    def span(self, first: int, last: int) -> tuple[int, int | None]:
        """From the left of the first to the right of the last."""
        return max(0, first - self.left), last + self.right + 1

    def sees_all(self, queries: range, keys: range) -> bool:
        """They are near enough to the query that is farthest."""
        near = keys[0] >= queries[-1] - self.left and keys[-1] <= queries[0] + self.right
        return near and self.dilation == 1


@dataclass(frozen=True)
class WindowOrFirst(_Alike, _Anywhere):
    """What a window shows, and the `first` keys of all (Longformer's global tokens)."""

    window: Window
    first: int

    def __call__(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The same for all rows."""
        return self.window(row, query, key) | (key < self.first)


@dataclass(frozen=True, eq=False)
class Padding(_Anywhere):
    """Only real keys; `real` (B, S) is True where there is a token."""

    real: Tensor

    def __call__(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The same for all queries of a row."""
        return self.real[row, key]

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.real)


@dataclass(frozen=True, eq=False)
class Documents(_Anywhere):
    """Only keys of the query's own document; `numbers` (B, S) names each key's document."""

    numbers: Tensor

    def __call__(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Each place by its own number."""
        return self.numbers[row, query] == self.numbers[row, key]

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.numbers)
