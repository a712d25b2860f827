"""The optimiser: Adam as published, what decays, and a state that comes back bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from headway.models.build import build, build_masked
from headway.settings.model import EncoderSettings, RecurrentSettings, TransformerSettings
from headway.settings.training import TrainSettings
from headway.training.loop import Trainer
from headway.training.muon import Muon
from headway.training.optimizer import make_optimizers, optimizer_tensors, restore_optimizers

Make = Callable[..., Trainer]


def settings(**more: Any) -> TrainSettings:
    made = {"steps": 10, "learning_rate": 0.01, "betas": [0.9, 0.98], "eps": 1e-6, **more}
    return TrainSettings(**made)


def give_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator)


def by_the_papers(model: nn.Module, n_steps: int, made: TrainSettings) -> list[Tensor]:
    """Adam, algorithm 1 of Kingma & Ba 2015, and AdamW's decay, in float64, weight by weight."""
    first, second = made.betas
    weights = [weight.detach().double() for weight in model.parameters()]
    m, v = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    for step in range(1, n_steps + 1):
        give_gradients(model, step)
        for i, parameter in enumerate(model.parameters()):
            assert parameter.grad is not None
            gradient = parameter.grad.double()
            m[i] = first * m[i] + (1 - first) * gradient
            v[i] = second * v[i] + (1 - second) * gradient.square()
            upward = m[i] / (1 - first**step)
            spread = (v[i] / (1 - second**step)).sqrt()
            decay = made.weight_decay if parameter.dim() >= 2 else 0.0
            decayed = weights[i] * (1 - made.learning_rate * decay)
            weights[i] = decayed - made.learning_rate * upward / (spread + made.eps)
    return weights


@pytest.mark.parametrize(("optimizer", "decay"), [("adam", 0.0), ("adamw", 0.0), ("adamw", 0.3)])
def test_steps_are_the_papers(optimizer: str, decay: float) -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7))
    made = settings(optimizer=optimizer, weight_decay=decay)
    wanted = by_the_papers(model, 4, made)
    (ours,) = make_optimizers(model, made)
    for step in range(1, 5):
        give_gradients(model, step)
        ours.step()
    for found, expected in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_the_fused_step_is_torchs_plain_one(optimizer: str) -> None:
    made = settings(optimizer=optimizer, weight_decay=0.1 if optimizer == "adamw" else 0.0)
    models = [nn.Linear(6, 4) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    (fused,) = make_optimizers(models[0], made)
    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
    groups = [
        {"params": [models[1].weight], "weight_decay": made.weight_decay},
        {"params": [models[1].bias], "weight_decay": 0.0},
    ]
    plain = kind(groups, lr=0.01, betas=(0.9, 0.98), eps=1e-6, foreach=False, fused=False)
    for step in range(3):
        for model, each in zip(models, (fused, plain), strict=True):
            give_gradients(model, step)
            each.step()
    for found, expected in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    assert all(group["fused"] for group in fused.param_groups)


def orthogonal(matrix: Tensor) -> Tensor:
    """Muon's five Newton–Schulz iterations (Jordan et al., 2024), in float64."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / wide.norm()
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if wide is not matrix else x


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(5, 7), (9, 4)])
@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-4), ("bfloat16", 5e-4)])
def test_muons_steps_are_the_papers(
    shape: tuple[int, int], decay: float, dtype: str, near: float
) -> None:
    """Nesterov momentum made nearly orthogonal, as large as a step of Adam: 0.2 √max(n, m)."""
    model = nn.Linear(*shape, bias=False)
    made = settings(optimizer="muon", weight_decay=decay, dtype=dtype)
    weight = model.weight.detach().double()
    (ours,) = make_optimizers(model, made)
    momentum = torch.zeros_like(weight)
    for step in range(1, 4):
        give_gradients(model, step)
        assert model.weight.grad is not None
        gradient = model.weight.grad.double()
        momentum = 0.95 * momentum + 0.05 * gradient
        update = orthogonal(0.05 * gradient + 0.95 * momentum) * 0.2 * max(shape) ** 0.5
        weight = weight * (1 - made.learning_rate * decay) - made.learning_rate * update
        ours.step()
    torch.testing.assert_close(model.weight.double(), weight, rtol=0, atol=near)


def test_muon_together_is_torchs_muon_one_by_one() -> None:
    """Tall and wide matrices of one shape share a batch, and none changes another's step."""
    shapes = [(6, 9), (9, 6), (6, 6), (6, 9), (3, 12)]
    ours, theirs = (
        [nn.Parameter(torch.randn(s, generator=torch.Generator().manual_seed(3))) for s in shapes]
        for _ in range(2)
    )
    mine = Muon(ours, lr=0.01, weight_decay=0.2)
    other = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.2, adjust_lr_fn="match_rms_adamw")
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        for one, same in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=generator) * 10.0 ** (step - 1)
            same.grad = one.grad.clone()
        ours[2].grad = theirs[2].grad = None  # a weight that no path used
        mine.step()
        other.step()
    for one, same in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, same, rtol=0, atol=3e-4)
        assert mine.state[one].keys() == other.state[same].keys()
        for part, value in mine.state[one].items():
            assert torch.equal(value, other.state[same][part])


def test_muon_multiplies_in_the_dtype_of_the_training() -> None:
    """On a processor without bfloat16 a step in it takes a hundred times as long."""
    for dtype, own in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        (muon,) = make_optimizers(
            nn.Linear(3, 4, bias=False), settings(optimizer="muon", dtype=dtype)
        )
        assert isinstance(muon, Muon)
        assert muon.dtype == own


def test_a_gradient_of_zeros_moves_nothing() -> None:
    weight = nn.Parameter(torch.ones(3, 4))
    weight.grad = torch.zeros(3, 4)
    Muon([weight], lr=0.1).step()
    assert torch.equal(weight, torch.ones(3, 4))


MODELS = [
    TransformerSettings(
        d_model=8, d_feed_forward=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1
    ),
    RecurrentSettings(d_embedding=4, d_hidden=6, score="additive"),
]


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.kind)
def test_muon_takes_what_is_no_row_of_a_token(kind: Any) -> None:
    model = build(kind.model_copy(update={"tie": "none"}), n_source=21, n_target=23)
    muon, adam = make_optimizers(model, settings(optimizer="muon"))
    names = {weight: name for name, weight in model.named_parameters()}
    by_muon = {names[w] for group in muon.param_groups for w in group["params"]}
    by_adam = {names[w] for group in adam.param_groups for w in group["params"]}
    assert by_muon
    assert not by_muon & by_adam
    assert by_muon | by_adam == set(names.values())
    assert all(weight.dim() == 2 for weight in model.parameters() if names[weight] in by_muon)
    with_rows = {names[w] for w in model.parameters() if w.dim() == 2 and w.shape[0] in (21, 23)}
    assert len(with_rows) >= 3
    assert with_rows <= by_adam


def test_muon_leaves_every_head_to_adamw() -> None:
    """Of a masked language model it is the one that tells whether a text follows another."""
    row = {"n_layers": 1, "d_model": 8, "d_feed_forward": 8, "n_heads": 2}
    model = build_masked(EncoderSettings(**row), n_tokens=21)
    made = make_optimizers(model, settings(optimizer="muon"))
    muon, adam = ({w for group in each.param_groups for w in group["params"]} for each in made)
    assert model.follows is not None
    assert {model.follows.weight, model.masked.output.weight} <= adam
    assert model.encoder.pooler is not None
    assert {model.masked.transform.weight, model.encoder.pooler.weight} <= muon


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.kind)
def test_norms_and_biases_do_not_decay(kind: Any, name: str) -> None:
    """Without a gradient a step only decays: what shrinks is what decays, once."""
    model = build(kind, n_source=9, n_target=9)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(1.0)
            weight.grad = torch.zeros_like(weight)
    optimizers = make_optimizers(model, settings(optimizer=name, weight_decay=0.5))
    for optimizer in optimizers:
        optimizer.step()
    vectors = 0
    for where, weight in model.named_parameters():
        decays = not (".norm" in where or "bias" in where or weight.dim() == 1)
        vectors += not decays
        expected = 1 - 0.01 * 0.5 if decays else 1.0
        torch.testing.assert_close(weight.detach(), torch.full_like(weight, expected), msg=where)
    assert 0 < vectors < len(list(model.parameters()))
    held = [w for each in optimizers for group in each.param_groups for w in group["params"]]
    assert {id(weight) for weight in held} == {id(weight) for weight in model.parameters()}
    assert len(held) == len(list(model.parameters()))  # a tied matrix once


def test_frozen_weights_are_left_out() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    (optimizer,) = make_optimizers(model, settings(optimizer="adamw", weight_decay=0.5))
    give_gradients(model, 1)
    optimizer.step()
    assert torch.equal(model[0].weight, before)
    assert set(optimizer_tensors([optimizer], model)) == {
        f"1.{name}/{part}"
        for name in ("weight", "bias")
        for part in ("exp_avg", "exp_avg_sq", "step")
    }
    only_biases = nn.LayerNorm(3, bias=True)
    (alone,) = make_optimizers(only_biases, settings())
    assert len(alone.param_groups) == 1


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_a_state_comes_back_bit_for_bit(make: Make, model: str, optimizer: str) -> None:
    """Through safetensors, into another optimiser, whose next steps are then the same bits."""
    # the rate is no part of the state: the schedule sets it at each step
    alike = {"optimizer": optimizer, "weight_decay": 0.1, "schedule": "constant", "warmup": 0}
    original = make(model, **alike)
    batches = original.batches.after(0, 0)
    for _ in range(3):
        original.advance(batches)
    held = optimizer_tensors(original.optimizers, original.model)
    names = [name for name, _ in original.model.named_parameters()]
    assert {key.rpartition("/")[0] for key in held} == set(names)
    stored = load(save({key: value.contiguous() for key, value in held.items()}))
    other = make(model, **alike)
    other.model.load_state_dict(original.model.state_dict())
    # whatever order the file has its tensors in
    restore_optimizers(other.optimizers, other.model, dict(sorted(stored.items(), reverse=True)))
    back = optimizer_tensors(other.optimizers, other.model)
    assert back.keys() == held.keys()
    for key, value in held.items():
        assert torch.equal(back[key], value), key
        assert back[key].dtype == value.dtype
    for step in range(2):
        for trainer in (original, other):
            give_gradients(trainer.model, step)
            for each in trainer.optimizers:
                each.step()
    for one, same in zip(original.weights, other.weights, strict=True):
        assert torch.equal(one, same)
