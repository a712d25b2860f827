"""The loss of labels, low-rank updates, frozen weights, recomputed activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headway.base.errors import UserError
from headway.batches.by_length import FramedRows, LabelBatch, LabelBatches
from headway.batches.pairs import EncodedSide
from headway.models.build import build_classifier, build_decoder
from headway.models.encoder import Classifier
from headway.nn.dropout import Noise
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.training import FineTuneSettings, LoraSettings
from headway.training.fine_tuning import (
    LowRankLinear,
    PredictLabel,
    adapt,
    label_loss,
    plain_weights,
)
from headway.training.loop import Trainer

CPU = torch.device("cpu")
SETTINGS = EncoderSettings(
    d_model=16, d_feed_forward=24, n_heads=2, n_layers=2, max_length=16, attention_dropout=0.1
)


def classifier() -> Classifier:
    return build_classifier(SETTINGS, n_tokens=19, n_classes=3, seed=1)


def rows() -> LabelBatches:
    random = np.random.default_rng(0)
    ids = [random.integers(1, 19, length).tolist() for length in random.integers(3, 12, 40)]
    framed = FramedRows(EncodedSide.of(ids), EncodedSide.of([[0] * len(row) for row in ids]))
    return LabelBatches(framed, np.array([row[1] % 3 for row in ids]), 8, 1, pad=0)


def trainer(model: nn.Module, **keys: Any) -> Trainer:
    settings = FineTuneSettings(dtype="float32", learning_rate=1e-2, **keys).for_rows(40)
    adapt(model, settings, seed=1)
    objective = PredictLabel(settings.label_smoothing, regression=False)
    return Trainer(model, settings, rows(), objective, seed=1, device=CPU)


def trained(steps: int = 4, **keys: Any) -> Trainer:
    found = trainer(classifier(), **keys)
    batches = found.batches.after(0, 0)
    for _ in range(steps):
        found.advance(batches)
    return found


def outputs(model: nn.Module) -> Tensor:
    batch = rows().batch(0, np.arange(40))
    with torch.no_grad():
        found: Tensor = model(batch.ids, batch.real, batch.segments)
    return found


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_a_sum_over_rows(smoothing: float) -> None:
    random = torch.Generator().manual_seed(1)
    logits, labels = torch.randn(5, 3, generator=random), torch.tensor([0, 2, 1, 1, 0])
    found = label_loss(logits, labels, smoothing, regression=False)
    wanted = -logits.log_softmax(-1)
    nll = wanted[torch.arange(5), labels]
    smooth = (1 - smoothing) * nll + smoothing * wanted.mean(dim=-1)
    torch.testing.assert_close(found.objective, smooth.sum())
    torch.testing.assert_close(found.nll, nll.sum())
    error = label_loss(logits[:, :1], labels, smoothing, regression=True)
    torch.testing.assert_close(error.objective, ((logits[:, 0] - labels) ** 2).sum())


def test_one_large_batch_has_the_gradient_of_two_small_ones() -> None:
    """Trap B1, for labels."""
    model, found = classifier(), rows()
    objective = PredictLabel(0.0, regression=False)

    def gradient(*parts: np.ndarray) -> Tensor:
        model.zero_grad()
        for part in parts:
            loss = objective(model, found.batch(0, part), None, "float32")["row"].objective
            (loss / 7).backward()
        weight = model.head.weight.grad
        assert weight is not None
        return weight.clone()

    whole = gradient(np.arange(7))
    torch.testing.assert_close(whole, gradient(np.arange(1), np.arange(1, 7)), atol=1e-6, rtol=1e-5)


LORA = LoraSettings(rank=3, alpha=6.0, layers=["to_query", "feed_forward.up"])


def test_low_rank_updates_are_all_that_learns() -> None:
    before = classifier().state_dict()
    found = trained(lora=LORA)
    layers = [name for name, each in found.model.named_modules() if isinstance(each, LowRankLinear)]
    assert layers == [
        f"encoder.stack.layers.{n}.{end}"
        for n in (0, 1)
        for end in ("attention.to_query", "feed_forward.up")
    ]
    learns = {name for name, weight in found.model.named_parameters() if weight.requires_grad}
    updates = {f"{name}.{end}_update" for name in layers for end in ("down", "up")}
    read = {"encoder.pooler.weight", "encoder.pooler.bias", "head.weight", "head.bias"}
    assert learns == updates | read
    stepped = {
        weight for each in found.optimizers for g in each.param_groups for weight in g["params"]
    }
    assert len(stepped) == len(learns)
    for name, weight in found.model.state_dict().items():
        if name not in learns:
            assert torch.equal(weight, before[name]), name
        elif name.endswith("up_update"):
            assert weight.abs().max() > 0
    assert all(
        weight.grad is None for weight in found.model.parameters() if not weight.requires_grad
    )


def test_updates_that_are_merged_compute_the_same() -> None:
    found = trained(lora=LORA)
    plain = classifier()
    untouched = outputs(plain)
    plain.load_state_dict(plain_weights(found.model.state_dict(), found.settings))
    torch.testing.assert_close(outputs(plain), outputs(found.model), atol=1e-6, rtol=0)
    assert (outputs(plain) - untouched).abs().max() > 1e-2


def test_updates_begin_as_nothing() -> None:
    model = classifier()
    before = outputs(model)
    adapt(model, FineTuneSettings(lora=LORA), seed=3)
    assert torch.equal(outputs(model), before)


@pytest.mark.parametrize("tie", ["output", "none"])
def test_the_output_of_a_decoder_takes_no_update(tie: str) -> None:
    settings = DecoderSettings(d_model=8, d_feed_forward=8, n_heads=2, n_layers=1, tie=tie)
    model = build_decoder(settings, n_tokens=9, seed=1)
    with pytest.raises(UserError, match="unknown linear layer 'head'"):
        adapt(model, FineTuneSettings(lora=LoraSettings(layers=["to_query", "head"])), seed=3)


def test_frozen_weights_stay() -> None:
    before = classifier().state_dict()
    frozen = ["encoder.embedding", "encoder.stack.layers.0", "head.bias"]
    after = trained(freeze=frozen, weight_decay=0.1).model.state_dict()
    for name, weight in after.items():
        stays = name.startswith(("encoder.embedding.", "encoder.stack.layers.0.", "head.bias"))
        assert torch.equal(weight, before[name]) is stays, name


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"freeze": ["encoder.stak"]}, "unknown weights 'encoder.stak'.*encoder.stack"),
        ({"freeze": ["encoder", "head"]}, "nothing to train"),
        ({"lora": LoraSettings(layers=["query"])}, "unknown linear layer 'query'.*to_query"),
    ],
)
def test_names_that_are_none_are_told(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        trainer(classifier(), **keys)


def test_recomputed_activations_change_no_bit() -> None:
    plain, again = trained(), trained(checkpoint_activations=True)
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name
    assert plain.state.window == _same_time(again.state.window, plain.state.window.seconds)


def _same_time(window: Any, seconds: float) -> Any:
    window.seconds = seconds
    return window


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_recomputing_holds_on_to_less(positions: str) -> None:
    settings = DecoderSettings(
        d_model=32,
        d_feed_forward=64,
        n_heads=2,
        n_layers=4,
        order="pre",
        positions=positions,  # type: ignore[arg-type]
        max_length=32,
    )
    sizes, gradients = [], []
    for recomputes in (False, True):
        model = build_decoder(settings, n_tokens=11, seed=1)
        adapt(model, FineTuneSettings(checkpoint_activations=recomputes), seed=1)
        held: dict[int, int] = {}

        def keep(tensor: Tensor, held: dict[int, int] = held) -> Tensor:
            held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            ids = torch.arange(64).view(2, 32) % 11
            hidden = model.hidden(ids, noise=Noise(1, 1))
        sizes.append(sum(held.values()))
        hidden.square().sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([weight.grad for weight in model.parameters()])
        with torch.no_grad():
            ids = torch.ones(1, 3, dtype=torch.long)
            state = model.start(ids, torch.tensor([3]))
            assert state.past is not None  # generating goes on as ever
            assert state.past.length == 3
    assert sizes[1] < 0.5 * sizes[0]
    assert all(map(torch.equal, *gradients))


def test_a_batch_on_a_device_is_whole() -> None:
    batch = rows().batch(0, np.arange(2)).to(CPU)
    assert isinstance(batch, LabelBatch)
    assert batch.counts == {"row": 2}
