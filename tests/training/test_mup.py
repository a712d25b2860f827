"""μP: what it does at its base (nothing), and that it is the paper's table 8 with multipliers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.base.errors import UserError
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.nn.attention import Attention
from headway.scaling.shapes import widened
from headway.settings.model import DecoderSettings
from headway.settings.recipe import load_recipe
from headway.settings.training import LanguageTrainSettings, MupSettings
from headway.training.mup import begin_mup
from headway.training.optimizer import make_optimizers

V, STEPS = 13, 4
SHAPE = DecoderSettings(
    n_layers=2,
    d_model=48,
    d_feed_forward=96,
    n_heads=4,
    order="pre",
    positions="rotary",
    max_length=16,
    dropout=0.0,
)


def settings(mup: MupSettings | None, **more: Any) -> LanguageTrainSettings:
    return LanguageTrainSettings(steps=STEPS, learning_rate=0.01, eps=1e-12, mup=mup, **more)


def decoder(tie: str) -> Decoder:
    return build_decoder(SHAPE.model_copy(update={"tie": tie}), n_tokens=V, seed=5)


def trained(model: Decoder, optimizers: list[torch.optim.Optimizer], multiplier: float) -> Tensor:
    """The logits after some steps on one batch."""
    ids = torch.randint(V, (3, 9), generator=torch.Generator().manual_seed(1))
    for _ in range(STEPS):
        logits = model(ids[:, :-1]) * multiplier
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    found: Tensor = model(ids) * multiplier
    return found.detach()


def by_the_paper(model: Decoder, made: LanguageTrainSettings) -> list[torch.optim.Optimizer]:
    """Table 8 in its own form: the first weights, and rates with lr·decay kept; no multipliers.

    The first weights of a decoder go with 1/√width; those of the base are √m times as large.
    """
    assert made.mup is not None
    m = SHAPE.d_model / made.mup.base_width
    hidden = [each.weight for each in model.stack.modules() if isinstance(each, nn.Linear)]
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(math.sqrt(m))
        for weight in hidden:
            weight.div_(math.sqrt(m))
    rest = [weight for weight in model.parameters() if not any(weight is one for one in hidden)]
    rate, decay = made.learning_rate, made.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": hidden, "lr": rate / m, "weight_decay": decay * m},
        {"params": [w for w in rest if w.dim() > 1], "lr": rate, "weight_decay": decay},
        {"params": [w for w in rest if w.dim() == 1], "lr": rate, "weight_decay": 0.0},
    ]
    return [torch.optim.AdamW(groups, betas=(made.betas[0], made.betas[1]), eps=made.eps)]


@pytest.mark.parametrize("tie", ["output", "none"])
@pytest.mark.parametrize("base_head", [None, 6])
def test_it_is_the_papers_table_with_multipliers(tie: str, base_head: int | None) -> None:
    made = settings(MupSettings(base_width=16, base_head=base_head), weight_decay=0.0)
    ours, theirs = decoder(tie), decoder(tie)
    begin_mup(ours, made)
    found = trained(ours, make_optimizers(ours, made), 1.0)
    optimizers = by_the_paper(theirs, made)
    for module in theirs.modules():
        if isinstance(module, Attention) and base_head is not None:
            scaled, factor = module.score, math.sqrt(base_head / (SHAPE.d_model // SHAPE.n_heads))
            change = scaled.change  # type: ignore[union-attr]
            # 1/K in place of 1/√K, as at the base
            scaled.change = lambda query, c=change, f=factor: c(query) * f  # type: ignore[method-assign,misc,assignment]
    expected = trained(theirs, optimizers, 16 / SHAPE.d_model)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)  # only rounding differs
    plain = decoder(tie)
    without = trained(plain, make_optimizers(plain, settings(None, weight_decay=0.0)), 1.0)
    assert not torch.allclose(found, without, rtol=1e-2)


def test_what_decays_in_a_step_does_not_depend_on_the_width() -> None:
    made = settings(MupSettings(base_width=16), weight_decay=0.2)
    (optimizer,) = make_optimizers(decoder("output"), made)
    shares = {group["share"] for group in optimizer.param_groups}
    assert shares == {1.0, 16 / 48}
    for group in optimizer.param_groups:
        assert group["lr"] == group["share"] * made.learning_rate
        decayed = group["lr"] * group["weight_decay"]
        assert decayed in (0.0, pytest.approx(0.2 * made.learning_rate))


def test_first_weights_are_those_of_the_base_but_for_matrices_in_blocks() -> None:
    base = build_decoder(widened(SHAPE, 24), n_tokens=400, seed=1)
    wide, made = (
        build_decoder(widened(SHAPE, 96), n_tokens=400, seed=1),
        settings(MupSettings(base_width=24)),
    )
    begin_mup(wide, made)
    weights = dict(wide.named_parameters())
    for name, weight in base.named_parameters():
        if weight.dim() == 2:
            inside = name.startswith("stack.")
            expected = weight.std() / (2 if inside else 1)
            assert weights[name].std().item() == pytest.approx(expected.item(), rel=0.1), name


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_at_its_base_it_is_not_there(optimizer: str) -> None:
    found = []
    for mup in (None, MupSettings(base_width=48, base_head=12)):
        model, made = decoder("output"), settings(mup, optimizer=optimizer)
        begin_mup(model, made)
        found.append(trained(model, make_optimizers(model, made), 1.0))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model.order": "post"}, "needs model.order = 'pre'"),
        ({"model.norm": "none"}, "and a model.norm"),
        ({"model.scale_embedding": True}, "scale_embedding = false"),
        ({"train.mup.base_width": 0}, "train.mup.base_width"),
    ],
)
def test_models_that_have_none_are_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_recipe("lm/stdlib", {"train.mup.base_width": 64, **keys})
    with pytest.raises(UserError, match=r"unknown key 'train.mup'"):
        load_recipe("bert/pretrain-small", {"train.mup.base_width": 64})
