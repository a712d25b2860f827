"""How many bytes of tensors there are at a time, counted as torch makes them.

What a process takes of memory says less: the allocator keeps what was freed.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Peak(TorchDispatchMode):
    """The most bytes of tensors that were made while it is on and are there at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()

    def _gone(self, place: int, size: int) -> None:
        self.known.discard(place)
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.device.type == "cpu":
                storage = tensor.untyped_storage()
                if storage._cdata not in self.known:
                    self.known.add(storage._cdata)
                    self.now += storage.nbytes()
                    weakref.finalize(storage, self._gone, storage._cdata, storage.nbytes())
        self.most = max(self.most, self.now)
        return made
