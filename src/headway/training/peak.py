"""How many bytes of tensors there are at a time, counted as torch makes them.

What a process takes of memory says less: the allocator keeps what was freed.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.training.loop import Trainer


class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The most bytes of tensors that were made while it is on and are there at a time.

    Those that were there `before` are not counted when they are seen again.
    """

    def __init__(self, before: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in before}

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


def step_peak(trainer: Trainer) -> int | None:
    """The most bytes of tensors in a step of this training on a CPU; None elsewhere.

    A copy of the model makes two steps, of which the second has the optimiser's state. The
    trainer's own model, optimiser and state are left as they were.
    """
    if trainer.device.type != "cpu":
        return None
    trial = Trainer(
        copy.deepcopy(trainer.model),
        trainer.settings.model_copy(update={"steps": 2}),
        trainer.batches,
        trainer.objective,
        seed=trainer.seed,
        device=trainer.device,
    )
    batches = trial.batches.after(0, 0)
    trial.advance(batches)
    states = [part for each in trial.optimizers for part in each.state.values()]
    there = [*trial.weights, *(one for parts in states for one in parts.values())]
    tensors = [one for one in there if isinstance(one, Tensor)]
    with Peak(tensors) as peak:
        trial.advance(batches)
    kept: int = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    return kept + int(peak.most)


def device_peak(device: torch.device) -> int | None:
    """The most bytes of tensors on an accelerator so far; None where that is not counted."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
