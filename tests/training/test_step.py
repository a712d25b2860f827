"""One optimiser step: the gradient of a mean over all its tokens, clipped, or none at all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.base.errors import UserError
from headway.batches.pairs import EncodedPairs, EncodedSide, PairBatches, Rows
from headway.training import objectives
from headway.training.loop import Hook, NotFinite, Trainer
from headway.training.losses import TokenLoss, token_loss
from headway.training.objectives import Losses
from headway.training.schedules import learning_rate

Make = Callable[..., Trainer]
Weights = Callable[[Trainer], dict[str, Tensor]]
TINY = {"short": [[5, 3]], "long": [[6, 7, 8, 9, 10, 11, 12, 13, 14, 3], [7, 3]]}


def rows(*numbers: int) -> Rows:
    return np.array(numbers)


def step(trainer: Trainer, *batches: Rows) -> dict[str, Tensor]:
    """Take one step on those batches; returns the gradient that the optimiser was given."""
    found: dict[str, Tensor] = {}

    def keep(*_: Any) -> None:
        named = trainer.model.named_parameters()
        found.update({name: w.grad.clone() for name, w in named if w.grad is not None})

    handle = trainer.optimizers[0].register_step_pre_hook(keep)
    trainer.advance(iter([(0, n + 1, batch) for n, batch in enumerate(batches)]))
    handle.remove()
    return found


def norm_of(gradient: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float(part.double().square().sum()) for part in gradient.values()))


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("model", "tolerance"),
    [
        ("recurrent-bare-float64", 1e-12),
        ("recurrent-float64", 1e-12),
        ("transformer-float64", 1e-7),  # attention without a mask is computed in float32
        ("transformer-plain", 1e-6),
    ],
)
def test_batches_of_a_step_are_one_batch(
    make: Make, weights_of: Weights, model: str, tolerance: float, smoothing: float
) -> None:
    """B1: a mean of means would weigh the one token of a short batch as all those of a long one."""
    # eps: Adam's first step is the sign of a gradient, and would enlarge the last bits of a small
    settings = {"label_smoothing": smoothing, "clip": 0.0, "eps": 1e-2}
    small, large = rows(0, 1, 2), rows(*range(20, 50))
    split = make(model, accumulate=2, **settings)
    whole = make(model, **settings)
    gradients = step(split, small, large), step(whole, np.concatenate((small, large)))
    assert apart(*gradients) < tolerance
    assert apart(weights_of(split), weights_of(whole)) < tolerance
    assert split.state.tokens == whole.state.tokens > 100
    found = split.state.window.objective / whole.state.window.objective
    assert found == pytest.approx(1.0, abs=1e-6)
    # as it would be with means: far outside the tolerance
    parts = [step(make(model, **settings), batch) for batch in (small, large)]
    mean = {name: (parts[0][name] + parts[1][name]) / 2 for name in parts[0]}
    assert apart(mean, gradients[1]) > 1e-3


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("model", ["transformer-plain", "recurrent-float64"])
def test_the_gradient_is_that_of_the_mean_over_real_tokens(
    make: Make, model: str, smoothing: float
) -> None:
    trainer = make(model, label_smoothing=smoothing, clip=0.0)
    chosen = rows(3, 1, 4, 15, 9, 2, 6)
    batch = trainer.batches.batch(0, chosen)
    logits = trainer.model(batch.source, batch.source_real, batch.target)
    logits, targets = logits[batch.target_real], batch.following[batch.target_real]
    mean = F.cross_entropy(logits, targets, label_smoothing=smoothing)
    named = dict(trainer.model.named_parameters())
    wanted = dict(zip(named, torch.autograd.grad(mean, list(named.values())), strict=True))
    assert apart(step(trainer, chosen), wanted) < 1e-6
    window = trainer.state.window
    assert window.objective / window.tokens == pytest.approx(mean.item(), rel=1e-6)
    nll = F.cross_entropy(logits, targets).item()
    assert window.nll / window.tokens == pytest.approx(nll, rel=1e-6)
    assert window.gradient_norm == pytest.approx(norm_of(wanted), rel=1e-5)


def test_clipping_scales_the_whole_gradient_down(make: Make) -> None:
    chosen = rows(*range(20))
    free = step(make("transformer-plain", clip=0.0), chosen)
    norm = norm_of(free)
    for clip, expected in ((norm / 4, norm / 4), (norm * 4, norm)):
        trainer = make("transformer-plain", clip=clip)
        clipped = step(trainer, chosen)
        assert norm_of(clipped) == pytest.approx(expected, rel=1e-4)
        scaled = {name: part * (expected / norm) for name, part in free.items()}
        assert apart(clipped, scaled) < 1e-5
        # what is logged is the norm before
        assert trainer.state.window.gradient_norm == pytest.approx(norm, rel=1e-5)


def test_each_step_has_its_rate(make: Make) -> None:
    trainer = make(steps=6, schedule="linear")
    taken = []
    trainer.optimizers[0].register_step_pre_hook(
        lambda optimizer, *_: taken.append({group["lr"] for group in optimizer.param_groups})
    )
    trainer.run(Hook(1, lambda _: None), [], leave=lambda _: None)
    assert taken == [{learning_rate(trainer.settings, number)} for number in range(1, 7)]
    assert len({min(rates) for rates in taken}) > 3


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_bfloat16_is_near_float32(make: Make, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products and logits are made in bfloat16; weights and their gradients stay in float32."""
    heads: list[torch.dtype] = []

    def spy(hidden: Tensor, *rest: Any) -> TokenLoss:
        heads.append(hidden.dtype)
        return token_loss(hidden, *rest)

    monkeypatch.setattr(objectives, "token_loss", spy)
    losses = []
    for dtype in (torch.float32, torch.bfloat16):
        trainer = make(model, dtype=str(dtype).removeprefix("torch."))
        products: set[torch.dtype] = set()
        for module in trainer.model.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(lambda *given, to=products: to.add(given[2].dtype))
        gradient = step(trainer, rows(*range(30)))
        assert products == {heads[-1]} == {dtype}
        assert {part.dtype for part in gradient.values()} == {torch.float32}
        assert all(bool(weight.isfinite().all()) for weight in trainer.weights)
        losses.append(trainer.state.window.objective)
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)


def some_without_targets() -> EncodedPairs:
    """Pair 0 has no target token, nor has pair 1; the others have."""
    sources = EncodedSide.of([[4, 3], [5, 6, 3], *TINY["short"], *TINY["long"]])
    return EncodedPairs(sources, EncodedSide.of([[], [], *TINY["short"], *TINY["long"]]))


@pytest.mark.parametrize("model", ["transformer-plain", "recurrent-float64"])
def test_a_batch_without_targets_adds_nothing(make: Make, model: str) -> None:
    """B3."""
    data = some_without_targets()
    alone = step(make(model, data=data), rows(2, 3))
    beside = step(make(model, data=data, accumulate=3), rows(0), rows(2, 3), rows(1, 0))
    assert apart(alone, beside) == 0.0
    mixed = step(make(model, data=data), rows(0, 2, 3))
    assert apart(alone, mixed) < 1e-6


def test_a_step_without_targets_is_passed_over_and_counted(
    make: Make, weights_of: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    """B3: the weights stay, the schedule does not move, and the data go on."""
    trainer = make(data=some_without_targets())
    expected = make(data=some_without_targets())
    expected.advance(iter([(0, 3, rows(2, 3))]))
    trainer.advance(iter([(0, 1, rows(0)), (0, 2, rows(1, 0)), (0, 3, rows(2, 3))]))
    assert trainer.state.skipped == 2
    assert (trainer.state.step, trainer.state.epoch, trainer.state.batch) == (1, 0, 3)
    assert apart(weights_of(trainer), weights_of(expected)) == 0.0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[1].startswith("step 1: ")
    assert said[1].endswith("(2 so far)")
    # whoever stops here goes on behind what was passed over
    with pytest.raises(StopIteration):
        trainer.advance(iter([(4, 7, rows(0))]))
    assert (trainer.state.step, trainer.state.epoch, trainer.state.batch) == (1, 4, 7)


def test_an_epoch_with_nothing_to_learn_is_the_end(make: Make, monkeypatch: Any) -> None:
    trainer = make(steps=8)
    whole = PairBatches.batch

    def nothing(self: PairBatches, epoch: int, some: Rows) -> Any:
        made = whole(self, epoch, some)
        return made._replace(target_real=made.target_real & False)

    monkeypatch.setattr(PairBatches, "batch", nothing)
    with pytest.raises(UserError, match="no batch of a whole epoch has a token to learn"):
        trainer.run(Hook(1, lambda _: None), [], leave=lambda _: None)
    assert trainer.state.step == 0


def spoil_weight(trainer: Trainer, name: str) -> None:
    with torch.no_grad():
        dict(trainer.model.named_parameters())[name].view(-1)[3] = math.inf


def spoil_gradient(trainer: Trainer, name: str) -> None:
    weight = dict(trainer.model.named_parameters())[name]
    weight.register_hook(lambda gradient: gradient * math.nan)


def spoil_loss(trainer: Trainer, _: str) -> None:
    right = trainer.objective

    def wrong(*given: Any) -> Losses:
        (loss,) = right(*given).values()
        return {"token": TokenLoss(loss.objective + math.nan, loss.nll)}

    trainer.objective = wrong


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (spoil_weight, "the weight {} is not finite"),
        (spoil_gradient, "the gradient of {} is not finite"),
        (spoil_loss, "the loss is not finite"),
    ],
)
def test_what_is_not_finite_ends_the_run(
    make: Make,
    weights_of: Weights,
    spoil: Callable[[Trainer, str], None],
    named: str,
    accumulate: int,
) -> None:
    """B9: the step, the parameter and the pairs are named; all is as the step before left it."""
    trainer = make(steps=8, accumulate=accumulate)
    name = "decoder.layers.0.feed_forward.up.weight"
    left: dict[str, Tensor] = {}
    left_table: dict[str, Any] = {}

    def at_step_4(state: Any) -> None:
        spoil(trainer, name)
        left.update(weights_of(trainer))
        left_table.update(state.to_table())

    with pytest.raises(NotFinite, match=re.escape(named.format(name))) as caught:
        trainer.run(Hook(1, lambda _: None), [Hook(4, at_step_4)], leave=lambda _: None)
    assert caught.value.where == "step 5"
    first = trainer.batches.seen[4 * accumulate]  # type: ignore[attr-defined]
    assert f"training rows {first[0]}, {first[1]}, " in caught.value.what
    now = weights_of(trainer)
    assert all(torch.equal(now[key], value) for key, value in left.items())
    assert trainer.state.to_table() == left_table
