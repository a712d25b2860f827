"""Recurrent layers on torch's own cells, with our dropout between them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headway.nn.dropout import Dropout, Noise

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentState(NamedTuple):
    """What recurrent layers remember: one entry a layer.

    Each holds the cell's parts (B, W): the output, and for the LSTM the memory cell.
    """

    layers: tuple[tuple[Tensor, ...], ...]

    @property
    def n_rows(self) -> int:
        """B: how many rows it remembers."""
        return len(self.layers[0][0])

    def select(self, rows: Tensor) -> Self:
        """The rows (N,) of the batch, in that order."""
        chosen = (tuple(part[rows] for part in layer) for layer in self.layers)
        return self._replace(layers=tuple(chosen))


class Recurrent(nn.Module):
    """`n_layers` GRU (Cho et al., 2014) or LSTM (Hochreiter & Schmidhuber, 1997) layers.

    `width` is that of the output; each direction of a bidirectional layer has half of it.
    """

    def __init__(
        self,
        cell: str,
        d_input: int,
        width: int,
        n_layers: int,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        one_mask: bool = False,
    ) -> None:
        super().__init__()
        each = width // 2 if bidirectional else width
        self.layers = nn.ModuleList(
            CELLS[cell](
                d_input if index == 0 else width,
                each,
                batch_first=True,
                bidirectional=bidirectional,
            )
            for index in range(n_layers)
        )
        self.dropout = nn.ModuleList(
            Dropout(dropout, one_mask=one_mask) for _ in range(n_layers - 1)
        )

    def forward(
        self,
        hidden: Tensor,
        *,
        lengths: Tensor | None = None,
        state: RecurrentState | None = None,
        noise: Noise | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """(B, T, D) -> (B, T, width), and the state after each row's last token.

        `lengths` (B,) says where rows end, so that a backward direction begins at a row's own last
        token; beyond its end a row's output is 0. `state` is where the layers begin.
        """
        ends = []
        T = hidden.shape[1]
        for index, layer in enumerate(self.layers):
            if index > 0:
                hidden = self.dropout[index - 1](hidden, noise)
            begin = _to_torch(state.layers[index]) if state is not None else None
            if lengths is None:
                hidden, end = _run(layer, hidden, begin)
            else:
                packed = pack_padded_sequence(
                    hidden, lengths.cpu(), batch_first=True, enforce_sorted=False
                )
                output, end = _run(layer, packed, begin)
                hidden, _ = pad_packed_sequence(output, batch_first=True, total_length=T)
            ends.append(_from_torch(end))
        return hidden, RecurrentState(tuple(ends))


def _run(layer: nn.Module, hidden: Any, begin: Any) -> Any:
    """The layer, in float32 where this processor cannot have it in bfloat16."""
    narrow = isinstance(layer, nn.LSTM) and torch.is_autocast_enabled("cpu")
    if not narrow or takes_bfloat16() or layer.weight_ih_l0.device.type != "cpu":
        return layer(hidden, begin)
    with torch.autocast("cpu", enabled=False):
        begin = None if begin is None else tuple(part.float() for part in begin)
        return layer(hidden.to(torch.float32), begin)


@functools.cache
def takes_bfloat16() -> bool:
    """Whether torch has an LSTM in bfloat16 for this processor: it has none by plain products."""
    with torch.random.fork_rng(devices=[]):  # torch's own numbers are the model's
        layer = nn.LSTM(1, 1)
    try:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            layer(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True


def _to_torch(parts: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    """(B, W) a part -> what a torch layer of one direction takes, (1, B, W)."""
    begin = tuple(part[None].contiguous() for part in parts)
    return begin if len(begin) > 1 else begin[0]


def _from_torch(end: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a torch layer ends with, (directions, B, W) a part -> (B, directions · W)."""
    parts = end if isinstance(end, tuple) else (end,)
    return tuple(torch.cat(tuple(part), dim=-1) for part in parts)
