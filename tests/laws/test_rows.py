"""A batch is its rows; padding, the future and the mode of the module change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.models.encoder_decoder import EncoderDecoder

Model = EncoderDecoder[Any, Any]
B, S, T, VOCABULARY = 3, 6, 5, 17
LENGTHS = torch.tensor([6, 1, 4])
REAL = torch.arange(S) < LENGTHS[:, None]


def ids() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(0, VOCABULARY, (B, S), generator=generator)
    return source, torch.randint(0, VOCABULARY, (B, T), generator=generator)


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_batch_is_its_rows(model: Model) -> None:
    source, target = ids()
    together = model(source, REAL, target)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = source[row : row + 1, :length]
        close(
            model(alone, torch.ones(1, length).bool(), target[row : row + 1]),
            together[row : row + 1],
        )


@torch.no_grad()
def test_the_order_of_rows_is_no_matter(model: Model) -> None:
    source, target = ids()
    order = torch.tensor([2, 0, 1])
    found = model(source[order], REAL[order], target[order])
    close(found, model(source, REAL, target)[order])


@torch.no_grad()
def test_what_stands_in_the_padding_changes_no_bit(model: Model) -> None:
    source, target = ids()
    other = torch.where(REAL, source, (source + 5) % VOCABULARY)
    assert not torch.equal(other, source)
    assert torch.equal(model(other, REAL, target), model(source, REAL, target))


def test_padding_gets_no_gradient(model: Model) -> None:
    source, target = ids()
    source = torch.where(REAL, source % (VOCABULARY - 1), VOCABULARY - 1)  # one id for the padding
    target = target % (VOCABULARY - 1)
    model.zero_grad()
    model.decode(target, model.encode(source, REAL)).sum().backward()
    table = next(weight for name, weight in model.named_parameters() if "source_embed" in name)
    assert table.grad is not None
    assert table.grad[:-1].abs().sum() > 0
    assert table.grad[-1].eq(0.0).all()
    model.zero_grad()


@torch.no_grad()
def test_more_padding_changes_nothing(model: Model) -> None:
    source, target = ids()
    wider = torch.cat((source, source[:, :3]), dim=1)
    real = torch.cat((REAL, torch.zeros(B, 3).bool()), dim=1)
    close(model(wider, real, target), model(source, REAL, target))


@torch.no_grad()
def test_the_future_changes_nothing(model: Model) -> None:
    source, target = ids()
    whole = model(source, REAL, target)
    for t in range(1, T):
        other = target.clone()
        other[:, t:] = (other[:, t:] + 3) % VOCABULARY
        assert torch.equal(model(source, REAL, other)[:, :t], whole[:, :t])
        close(model(source, REAL, target[:, :t]), whole[:, :t])


@torch.no_grad()
def test_the_past_and_the_source_do_change_something(model: Model) -> None:
    """Or the laws above would hold for a model that reads nothing."""
    source, target = ids()
    whole = model(source, REAL, target)
    other = target.clone()
    other[:, 0] = (other[:, 0] + 3) % VOCABULARY
    assert (model(source, REAL, other)[:, -1] - whole[:, -1]).abs().max() > 1e-4
    other = source.clone()
    other[:, 0] = (other[:, 0] + 3) % VOCABULARY
    assert (model(other, REAL, target) - whole).abs().amax(dim=(1, 2)).min() > 1e-4


@pytest.mark.parametrize("mode", ["train", "eval", "inference"])
def test_shapes_and_values_are_the_same_in_every_mode(model: Model, mode: str) -> None:
    """All rows end in padding here, which once made an encoder's output shorter in eval."""
    source, target = ids()
    real = torch.arange(S) < torch.tensor([4, 3, 4])[:, None]
    wanted = model.train()(source, real, target).detach()
    model.train(mode == "train")
    with torch.inference_mode(mode == "inference"):
        encoded = model.encode(source, real)
        found = model(source, real, target)
    assert found.shape == (B, T, VOCABULARY)
    if hasattr(encoded, "hidden"):
        assert encoded.hidden.shape[:2] == (B, S)
    close(found, wanted)


def test_every_weight_learns(model: Model) -> None:
    source, target = ids()
    model.zero_grad()
    model(source, REAL, target).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        # a key's bias adds the same to all scores of a query: the softmax does not see it
        if "to_key.bias" not in name:
            assert weight.grad.abs().max() > 1e-7, name
    model.zero_grad()


@torch.no_grad()
def test_bfloat16_autocast_stays_near(model: Model) -> None:
    source, target = ids()
    wanted = model(source, REAL, target)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(source, REAL, target)
    assert found.isfinite().all()
    assert (found.float() - wanted).abs().max() < 0.1 * wanted.abs().max()
