"""build(): first weights, shared matrices, refusals; blocks without residual or norm."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from headway.models.build import build
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.seq2seq import Transformer
from headway.nn.block import Block
from headway.nn.dropout import Drop, Dropout, Noise
from headway.nn.visibility import full
from headway.settings.model import RecurrentSettings, StackSettings, TransformerSettings


def transformer(**changed: Any) -> TransformerSettings:
    row = {"d_model": 16, "d_feed_forward": 24, "n_heads": 2, "dropout": 0.1}
    return TransformerSettings(**row | {"n_encoder_layers": 2, "n_decoder_layers": 2} | changed)


def recurrent(**changed: Any) -> RecurrentSettings:
    return RecurrentSettings(
        **{"d_embedding": 12, "d_hidden": 16, "n_layers": 2, "score": "additive"} | changed
    )


BOTH = pytest.mark.parametrize("make", [transformer, recurrent])


def weights(model: EncoderDecoder[Any, Any]) -> dict[str, torch.Tensor]:
    return model.state_dict()


@BOTH
def test_first_weights_are_a_function_of_the_seed(make: Any) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = weights(build(make(), n_source=20, n_target=20, seed=3))
    assert torch.equal(torch.get_rng_state(), before)  # left as it was
    torch.manual_seed(6)
    again = weights(build(make(), n_source=20, n_target=20, seed=3))
    other = weights(build(make(), n_source=20, n_target=20, seed=4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if "embed" in name)


@BOTH
@pytest.mark.parametrize("tie", ["none", "output", "all"])
def test_ties_share_storage(make: Any, tie: str) -> None:
    model = build(make(tie=tie), n_source=20, n_target=20)
    pointers = {"head": model.head.weight.data_ptr()}
    for side in ("source", "target"):
        embedding = getattr(model, f"{side}_embedding")
        embedding = embedding.tokens if isinstance(model, Transformer) else embedding
        pointers[side] = embedding.weight.data_ptr()
    assert (pointers["head"] == pointers["target"]) == (tie != "none")
    assert (pointers["source"] == pointers["target"]) == (tie == "all")
    model.load_state_dict({name: value.clone() for name, value in weights(model).items()})
    assert (model.head.weight.data_ptr() == pointers["target"]) == (tie != "none")


@BOTH
def test_one_embedding_for_two_vocabularies_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="20 source and 30 target"):
        build(make(tie="all"), n_source=20, n_target=30)
    for tie in ("none", "output"):
        model = build(make(tie=tie), n_source=20, n_target=30)
        source = torch.tensor([[19]])
        logits = model(source, source >= 0, torch.tensor([[29, 0]]))
        assert logits.shape == (1, 2, 30)


def test_first_weights_of_a_transformer() -> None:
    """Glorot-uniform matrices, no bias, embedded tokens of size 1."""
    settings = transformer(d_model=64, d_feed_forward=192, n_heads=4, n_kv_heads=1)
    model = build(settings, n_source=500, n_target=500)
    assert isinstance(model, Transformer)
    for name, weight in model.named_parameters():
        if name.endswith(".bias"):
            assert weight.eq(0.0).all(), name
        elif ".norm" in name:
            assert weight.eq(1.0).all(), name
        elif "tokens" not in name:
            bound = math.sqrt(6 / sum(weight.shape))
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.02), name
    tokens = model.source_embedding.tokens.weight
    assert (tokens * model.source_embedding.scale).std().item() == pytest.approx(1.0, rel=0.02)
    logits = model(
        *(torch.randint(0, 500, (4, 9)) for _ in range(1)),
        torch.ones(4, 9).bool(),
        torch.randint(0, 500, (4, 9)),
    )
    assert logits.std().item() == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_first_weights_of_a_recurrent_model(cell: str) -> None:
    model = build(recurrent(cell=cell), n_source=20, n_target=20)
    for name, weight in model.named_parameters():
        if "weight_hh" in name:
            for gate in weight.split(weight.shape[1]):
                product = gate @ gate.T
                torch.testing.assert_close(product, torch.eye(len(gate)), rtol=0, atol=1e-5)
        elif "bias" in name:
            assert weight.eq(0.0).all(), name


@BOTH
def test_places_of_dropout_are_all_different(make: Any) -> None:
    model = build(make(dropout=0.3), n_source=20, n_target=20)
    places = [module.place for module in model.modules() if isinstance(module, Dropout)]
    assert sorted(places) == list(range(len(places)))
    assert len(places) > 4


@BOTH
def test_noise_alone_decides_about_dropout(make: Any) -> None:
    """train() and eval() say nothing: without noise there is none, and the same noise repeats."""
    model = build(make(dropout=0.3), n_source=20, n_target=20)
    source, target = torch.randint(0, 20, (2, 5)), torch.randint(0, 20, (2, 4))
    real = torch.ones(2, 5).bool()
    plain = model.train()(source, real, target)
    assert torch.equal(model.eval()(source, real, target), plain)
    noisy = model(source, real, target, Noise(0, 1))
    assert not torch.allclose(noisy, plain)
    assert torch.equal(model(source, real, target, Noise(0, 1)), noisy)
    assert not torch.allclose(model(source, real, target, Noise(0, 2)), noisy)
    calm = build(make(dropout=0.0), n_source=20, n_target=20)
    assert torch.equal(calm(source, real, target, Noise(0, 1)), calm(source, real, target))


@BOTH
def test_every_dropout_is_reached_with_the_noise(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"attention_dropout": 0.2} if make is transformer else {}
    model = build(make(dropout=0.3, **changed), n_source=20, n_target=20)
    places = [each.place for each in model.modules() if isinstance(each, Dropout)]
    calls: dict[int, list[Noise | None]] = {place: [] for place in places}
    plain = Dropout.drop

    def drop(self: Dropout, noise: Noise | None) -> Drop | None:
        calls[self.place].append(noise)
        return plain(self, noise)

    monkeypatch.setattr(Dropout, "drop", drop)
    source, noise = torch.randint(0, 20, (2, 5)), Noise(0, 1)
    model(source, torch.ones(2, 5).bool(), source, noise)
    assert calls == {place: [noise] for place in places}


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("variational", [False, True])
def test_variational_dropout_is_the_same_at_all_positions(variational: bool, fed: bool) -> None:
    settings = recurrent(dropout=0.5, variational=variational, input_feeding=fed)
    model = build(settings, n_source=20, n_target=20)
    calls: dict[str, list[torch.Tensor]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            calls[name] = []
            module.register_forward_hook(
                lambda module, given, found, name=name: calls[name].append(found == 0)
            )
    source = torch.randint(0, 20, (2, 5))
    model(source, torch.ones(2, 5).bool(), source, Noise(0, 1))
    lost = {name: torch.cat(parts, dim=1) for name, parts in calls.items()}  # (B, T, ·)
    same = {name: torch.equal(part, part[:, :1].expand_as(part)) for name, part in lost.items()}
    # with input feeding the decoder reads position by position, in one noise
    assert same == {name: variational or (fed and "decoder" in name) for name in calls}


def test_attention_dropout_drops_weights() -> None:
    model = build(transformer(dropout=0.0, attention_dropout=0.5), n_source=20, n_target=20)
    source, target = torch.randint(0, 20, (2, 5)), torch.randint(0, 20, (2, 4))
    real = torch.ones(2, 5).bool()
    plain = model(source, real, target)
    assert not torch.allclose(model(source, real, target, Noise(0, 1)), plain)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("residual", [True, False])
def test_residual_and_norm_do_what_they_say(residual: bool, norm: str, order: str) -> None:
    settings = StackSettings(
        d_model=8,
        d_feed_forward=12,
        n_heads=2,
        dropout=0.0,
        residual=residual,
        norm=norm,
        order=order,
    )
    torch.manual_seed(0)
    block, hidden = Block(settings, crosses=False), torch.randn(2, 3, 8)
    found, _ = block(hidden, visibility=full(), rotation=None, memory=None, past=None, noise=None)

    def normed(x: torch.Tensor, wanted: str) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (8,)) if (norm, order) == ("layer", wanted) else x

    entered = normed(hidden, "pre")
    keys = block.attention.keys(entered, None)
    change = block.attention(entered, keys, visibility=full(), rotation=None, noise=None)
    middle = normed(hidden + change if residual else change, "post")
    change = block.feed_forward(normed(middle, "pre"), None)
    wanted = normed(middle + change if residual else change, "post")
    torch.testing.assert_close(found, wanted)
    if norm == "none":
        assert not list(block.around_attention.norm.parameters())


@pytest.mark.parametrize("changed", [{"residual": False}, {"norm": "none"}])
def test_whole_models_run_without_residual_or_norm(changed: dict[str, Any]) -> None:
    model = build(transformer(**changed), n_source=20, n_target=20)
    source = torch.randint(0, 20, (2, 5))
    logits = model(source, torch.ones(2, 5).bool(), source)
    logits.square().mean().backward()
    assert all(weight.grad is not None for weight in model.parameters())
