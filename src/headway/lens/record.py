"""Keeps what flows through a model's taps while a block runs."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from headway.base.errors import UserError
from headway.nn.tap import Tap


@contextmanager
def record(model: nn.Module, pattern: str) -> Iterator[dict[str, list[Tensor]]]:
    """Record the tensors that pass the taps whose names match `pattern` (as file names do).

    Gives a table from the tap's name to its tensors in the order of the calls, detached from the
    graph; a tap that was not reached has an empty list. The hooks go when the block ends, however
    it ends. Raises UserError, naming the taps there are, if none matches.

        with record(model, "decoder.*.cross.tap_weights") as trace:
            model(...)
    """
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    wanted = [name for name in taps if fnmatch.fnmatchcase(name, pattern)]
    if not wanted:
        there = ", ".join(taps) if taps else "none at all"
        raise UserError(f"no tap of the model matches '{pattern}'", todo=f"there are: {there}")
    trace: dict[str, list[Tensor]] = {name: [] for name in wanted}
    with ExitStack() as stack:
        for name in wanted:
            stack.callback(taps[name].register_forward_hook(_keep(trace[name])).remove)
        yield trace


def _keep(kept: list[Tensor]) -> Any:
    """A forward hook that appends the output to `kept`."""

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        kept.append(output.detach())

    return hook
