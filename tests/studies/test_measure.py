"""What studies measure, against the same thing computed another way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.checkpoint.run import RunFolder
from headway.models.seq2seq import Transformer
from headway.settings.kinds import TranslationRecipe
from headway.studies.causal_mask import open_build
from headway.studies.order import KINDS, permutation_change
from headway.studies.residual_norm import first_gradients
from headway.studies.scaling_dk import KEYS, random_scores
from headway.studies.tasks import cldr, schedule, transformer
from headway.studies.training import judge, plain_build, recipe_of, train_small, trainer_for
from headway.training.loop import NotFinite

KEYS_OF_A_RECIPE: dict[str, Any] = {
    **cldr(lines=300, max_words=8, test_lines=20),
    **schedule(6, batch_tokens=128, rate=5e-3, every=3),
    **transformer(2, 16, 2),
    "data.valid.lines": 10,
    "train.evaluate_every": 6,
}


def recipe(**changed: Any) -> TranslationRecipe:
    keys = KEYS_OF_A_RECIPE | {key.replace("__", "."): value for key, value in changed.items()}
    return recipe_of({"recipe": "cldr/transformer", "set": keys}, seed=3)


def test_a_small_training_is_an_ordinary_run(tmp_path: Path) -> None:
    trained = train_small(recipe())
    made = headway.train(recipe().to_table(), out=tmp_path / "run")
    records = RunFolder(tmp_path / "run").metrics.read()
    logged = [(each["step"], each["nll"]) for each in records if each["kind"] == "train"]
    assert trained.losses == logged
    assert [step for step, _ in logged] == [3, 6]
    assert trained.last_loss == logged[-1][1]
    assert trained.tokens_per_s > 0
    for name, weight in made.model.state_dict().items():
        assert torch.equal(trained.translator.model.state_dict()[name], weight), name
    found = judge(trained, (8,))
    (test,) = [each for each in records if each["kind"] == "test"]
    for key in ("nll", "token_accuracy", "exact_match", "chrf"):
        assert found[key] == pytest.approx(test[key])
    assert sum(part["n"] for part in found["by_length"]) == 20


def test_a_training_that_diverges_ends_there() -> None:
    # without norms and with steps of a thousand, the second loss is already no number
    wild = recipe(model__norm="none", train__learning_rate=1e30, train__warmup=0, train__clip=0.0)
    trained = train_small(wild, may_diverge=True)
    assert trained.diverged is not None
    assert trained.last_loss is None
    assert judge(trained, (8,))["nll"] is None
    with pytest.raises(NotFinite):
        train_small(wild)


def test_only_without_positions_an_encoder_sees_a_set() -> None:
    moved = {kind: permutation_change(kind, 32, seed=1) for kind in KINDS}
    assert moved["none"] < 1e-5
    assert all(moved[kind] > 0.01 for kind in KINDS if kind != "none")


def test_the_open_decoder_sees_the_future_and_the_ordinary_one_does_not() -> None:
    ordinary, seeing = plain_build(recipe(), 30, 30), open_build(recipe(), 30, 30)
    assert isinstance(ordinary, Transformer)
    for name, weight in ordinary.state_dict().items():
        assert torch.equal(seeing.state_dict()[name], weight)
    source, target = torch.randint(5, 30, (2, 6)), torch.randint(5, 30, (2, 5))
    changed = target.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 30
    real = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad():
        for model, moves in ((ordinary, False), (seeing, True)):
            before, after = model(source, real, target), model(source, real, changed)
            assert bool((before[:, :3] != after[:, :3]).any()) is moves
            assert bool((before[:, 3:] != after[:, 3:]).any())
        # what writes token by token has nothing to see: there the two are one
        state = ordinary.start(source, real.sum(1)), seeing.start(source, real.sum(1))
        steps = [
            model.step(target[:, :1], at)[0]
            for model, at in zip((ordinary, seeing), state, strict=True)
        ]
    assert torch.equal(*steps)


def test_the_open_decoder_sees_no_padding() -> None:
    model = open_build(recipe(), 30, 30)
    source, target = torch.randint(5, 30, (1, 6)), torch.randint(5, 30, (1, 4))
    real = torch.ones_like(source, dtype=torch.bool)
    longer = torch.cat((target, torch.zeros(1, 3, dtype=torch.long)), dim=1)
    with torch.no_grad():
        alone, padded = model(source, real, target), model(source, real, longer)
    assert torch.allclose(alone, padded[:, :4], atol=1e-5)


def test_the_open_decoder_drops_out_in_places_of_its_own() -> None:
    from headway.nn.dropout import Dropout

    model = open_build(recipe(), 30, 30)
    places = [module.place for module in model.modules() if isinstance(module, Dropout)]
    assert places == list(range(len(places)))


def test_random_scores_by_autograd() -> None:
    found = random_scores([4, 64], 2000, seed=1)
    for place, width in enumerate((4, 64)):
        assert found["variance dot"][place] == [width, pytest.approx(width, rel=0.1)]
        assert found["variance scaled_dot"][place] == [width, pytest.approx(1, rel=0.1)]
    few = random_scores([16], 3, seed=2)
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(3, 1, 16, generator=generator)
    key = torch.randn(3, KEYS, 16, generator=generator)
    norms, entropies = [], []
    for q, k in zip(query[:, 0], key, strict=True):
        scores = torch.stack([q @ each for each in k]) / 4
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
        norms.append(float(jacobian.square().sum().sqrt()))
        entropies.append(-sum(float(p) * math.log(float(p)) for p in scores.softmax(0)))
    even = torch.autograd.functional.jacobian(lambda s: s.softmax(0), torch.zeros(KEYS))
    size = float(even.square().sum().sqrt())
    assert few["gradient scaled_dot"][0][1] == pytest.approx(sum(norms) / 3 / size, rel=1e-4)
    assert few["entropy scaled_dot"][0][1] == pytest.approx(
        sum(entropies) / 3 / math.log(KEYS), rel=1e-4
    )


def test_first_gradients_are_those_of_the_first_batch() -> None:
    found = first_gradients(recipe())
    trainer = trainer_for(recipe())
    batch = trainer.batches.batch(0, trainer.batches.epoch(0)[0])
    assert (trainer.batches.pad, trainer.batches.bos) == (0, 2)
    logits = trainer.model(batch.source, batch.source_real, batch.target)
    loss = torch.nn.functional.cross_entropy(
        logits[batch.target_real], batch.following[batch.target_real]
    )
    loss.backward()  # type: ignore[no-untyped-call]
    assert isinstance(trainer.model, Transformer)
    for layer, size in zip(trainer.model.encoder.layers, found, strict=True):
        squares = sum(
            float(w.grad.square().sum()) for w in layer.parameters() if w.grad is not None
        )
        assert size == pytest.approx(math.sqrt(squares), rel=1e-4)
