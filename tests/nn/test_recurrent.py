"""Recurrent layers under autocast on processors that have no LSTM in bfloat16.

Where they have one, tests/laws/test_rows.py runs it.
"""

from __future__ import annotations

import pytest
import torch

from headway.nn import recurrent
from headway.nn.recurrent import Recurrent


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 5])])
def test_layers_run_where_there_is_no_bfloat16(
    cell: str, lengths: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch has no LSTM in bfloat16 for processors without the instructions, and says so."""
    monkeypatch.setattr(recurrent, "takes_bfloat16", lambda: False)
    torch.manual_seed(0)
    layers, hidden = Recurrent(cell, 4, 6, 2), torch.randn(2, 5, 4)
    wanted, state = layers(hidden, lengths=lengths)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = layers(hidden.bfloat16(), lengths=lengths)
        more, _ = layers(hidden.bfloat16(), state=state)
    found.float().sum().backward()
    assert more.isfinite().all()
    assert cell != "lstm" or found.dtype == torch.float32
    torch.testing.assert_close(found.float(), wanted, rtol=0.1, atol=0.02)
    for weight in layers.parameters():
        assert weight.grad is not None
        assert weight.grad.isfinite().all()
