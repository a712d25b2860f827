"""What share of the machine a training uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.training import loop, utilisation
from headway.training.loop import Trainer
from headway.training.utilisation import Operations, matrix_rate, product_rate

CPU = torch.device("cpu")


def test_operations_are_those_that_torch_counts() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.ReLU(), torch.nn.Linear(40, 8))
    both: Any = (FlopCounterMode(display=False), Operations())
    with both[0], both[1]:
        layer(torch.randn(3, 5, 24)).sum().backward()
    assert both[1].flops == both[0].get_total_flops() == 2 * 15 * (2 * 24 * 40 + 3 * 40 * 8)


def test_a_rate_is_work_over_the_fastest_round(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 9.0, 10.0, 14.0, 20.0, 22.0, 30.0, 35.0])  # rounds of 9, 4, 2 and 5 seconds
    monkeypatch.setattr(utilisation.time, "perf_counter", lambda: next(ticks))
    before = torch.get_rng_state()
    assert product_rate(16, torch.float32, CPU, 0.0) == 2 * 16**3 / 2.0
    assert torch.equal(torch.get_rng_state(), before)


def test_the_share_is_the_work_of_the_window_over_the_rate(
    make: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "matrix_rate", lambda dtype, device, threads: 1e9)
    trainer = make("transformer-plain")
    with Operations() as counted:
        batches = trainer.batches.after(0, 0)
        trainer.advance(batches)
    window = trainer.state.window
    assert trainer.work * window.tokens == pytest.approx(counted.flops)
    assert counted.flops > 0
    assert trainer.utilisation() == pytest.approx(counted.flops / window.seconds / 1e9)
    rate = f"{window.tokens / window.seconds:,.0f} tokens/s"
    said = f"{trainer.utilisation():.0%} of the matrix rate"
    assert trainer._text() == f"loss {window.nll / window.targets:.3f}  {rate}  {said}"
    work = trainer.work
    trainer.advance(batches)  # counted once: it costs a step some time
    assert trainer.work == work


def test_the_machine_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(utilisation, "product_rate", lambda side, *_: (looks.append(side), 1e12)[1])
    matrix_rate.cache_clear()
    assert [matrix_rate(torch.float32, CPU, 2) for _ in range(3)] == [1e12] * 3
    assert looks == [1024]
    matrix_rate.cache_clear()
