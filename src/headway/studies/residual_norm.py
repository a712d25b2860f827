"""What residual connections and norms do for a stack, at several depths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headway.lens.figures import Bars, Curves, Value
from headway.studies.base import (
    Check,
    Conclusion,
    Found,
    Number,
    Plain,
    Study,
    all_above,
    mean,
    over_seeds,
)
from headway.studies.tasks import (
    cldr,
    quick_cldr,
    quick_schedule,
    schedule,
    transformer,
)

if TYPE_CHECKING:
    from headway.settings.kinds import TranslationRecipe

PRE, POST, NO_RESIDUAL, NO_NORM = "pre-norm", "post-norm", "no residual", "no norm"
ARRANGED: Mapping[str, Plain] = {
    PRE: {"model.order": "pre"},
    POST: {"model.order": "post"},
    NO_RESIDUAL: {"model.order": "pre", "model.residual": False},
    NO_NORM: {"model.order": "pre", "model.norm": "none"},
}


def _settings(quick: bool) -> Mapping[str, Plain]:
    if quick:
        shared = {**quick_cldr(max_words=10), **quick_schedule(120, every=10)}
    else:
        shared = {
            **cldr(lines=20_000, max_words=10, test_lines=400),
            **schedule(210, batch_tokens=768, rate=7e-3, every=10),
        }
    found = {}
    for depth in (1, 4) if quick else (1, 3, 8):
        for name, keys in ARRANGED.items():
            chosen = {**shared, **transformer(depth, 64, 4), **keys}
            found[f"{name}, {depth}+{depth}"] = {"recipe": "cldr/transformer", "set": chosen}
    return found


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, recipe_of, train_small

    recipe = recipe_of(settings, seed)
    first = first_gradients(recipe)
    trained = train_small(recipe, may_diverge=True)
    return {
        **judge(trained, (8,)),
        "diverged_at": trained.diverged,
        "gradients": [[layer, size] for layer, size in enumerate(first, start=1)],
    }


def first_gradients(recipe: TranslationRecipe) -> list[float]:
    """The gradient's norm in each encoder layer, lowest first, for the first batch."""
    import torch

    from headway.models.seq2seq import Transformer
    from headway.studies.training import trainer_for

    trainer = trainer_for(recipe)
    assert isinstance(trainer.model, Transformer), "the study's recipe is a Transformer"
    batch = trainer.batches.batch(0, trainer.batches.epoch(0)[0])
    (loss,) = trainer.objective(trainer.model, batch, None, recipe.train.dtype).values()
    (loss.objective / batch.tokens).backward()
    return [
        float(
            torch.nn.utils.get_total_norm(
                [w.grad for w in layer.parameters() if w.grad is not None]
            )
        )
        for layer in trainer.model.encoder.layers
    ]


def _depths(found: Found) -> list[int]:
    return sorted({int(name.rpartition("+")[2]) for name in found.outcomes})


def _deepest(found: Found) -> dict[str, str]:
    """The settings of the deepest stacks, by arrangement."""
    depth = _depths(found)[-1]
    return {name: f"{name}, {depth}+{depth}" for name in ARRANGED}


def _checks(found: Found) -> list[Check]:
    deep = _deepest(found)
    losses = {name: [_loss(outcome) for outcome in found[deep[name]]] for name in ARRANGED}
    falls = {name: found.values(deep[name], _fall) for name in ARRANGED}
    said = ", ".join(f"{mean(losses[name]):.2f} ({name})" for name in ARRANGED)
    return [
        Check(
            what="without residual connections a deep stack hardly learns",
            rule="twice the NLL of pre-norm or more, in every seed",
            numbers=f"in the deepest stacks the test NLL is {said}",
            holds=min(losses[NO_RESIDUAL]) > 2 * max(losses[PRE]),
            otherwise="A norm in each layer lets a stack of this depth learn without them.",
        ),
        Check(
            what="without them the gradient vanishes on its way down",
            rule="the norm in the lowest encoder layer over that in the highest, first batch, "
            "below a tenth of that of pre-norm",
            numbers=f"it is {mean(falls[NO_RESIDUAL]):.2g} without and {mean(falls[PRE]):.2g} with "
            f"residual connections ({mean(falls[POST]):.2g} post-norm)",
            holds=max(falls[NO_RESIDUAL]) < min(falls[PRE]) / 10,
            otherwise="A norm in each layer keeps the size of what flows, so the gradient keeps "
            "its size even where it has lost its direction.",
        ),
        Check(
            what="without norm a deep stack learns worse",
            rule="every seed without norm above every seed of pre-norm",
            numbers=f"{mean(losses[NO_NORM]):.2f} against {mean(losses[PRE]):.2f}",
            holds=all_above(losses[NO_NORM], losses[PRE]),
            otherwise="Gradients cut to a norm of 1 and steps of a fixed size (Muon) keep such a "
            "stack in bounds.",
        ),
        Check(
            what="a deep stack learns more easily with the norm before than after",
            rule="every seed of post-norm above every seed of pre-norm",
            numbers=f"{mean(losses[POST]):.2f} against {mean(losses[PRE]):.2f}",
            holds=all_above(losses[POST], losses[PRE]),
            otherwise="The difference shows in deeper stacks, or with a shorter warm-up.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    deep = _deepest(found)
    losses = [[_loss(outcome) for outcome in found[deep[name]]] for name in (NO_RESIDUAL, PRE)]
    return Conclusion(
        number=Number(
            f"test NLL lost without residual connections, {_layers(_depths(found)[-1])}",
            over_seeds([ours - theirs for ours, theirs in zip(*losses, strict=True)]),
            "nats a token",
        ),
        rows={
            name: {
                "test NLL": found.value(name, "nll"),
                "exact match, %": found.value(name, "exact_match"),
                "gradient, lowest / highest": found.value(name, _fall),
            }
            for name in found.outcomes
        },
        checks=_checks(found),
        text=_broke_off(found),
        title="Residual connections and norms, in stacks of several depths",
        panels=_panels(found),
    )


def _layers(depth: int) -> str:
    return f"{depth} + {depth} layers"


def _panels(found: Found) -> list[Bars | Curves]:
    depths, deep = _depths(found), _deepest(found)
    layers = _layers(depths[-1])

    def losses(name: str) -> list[Value | None]:
        settings = [f"{name}, {depth}+{depth}" for depth in depths]
        return [over_seeds([_loss(outcome) for outcome in found[each]]) for each in settings]

    return [
        Bars(
            title="After training, by depth",
            y="test NLL, nats a token",
            groups=[_layers(depth) for depth in depths],
            series={name: losses(name) for name in ARRANGED},
            log_y=True,
        ),
        Curves(
            title=f"Training, {layers}",
            x="step",
            y="NLL, nats a token",
            series={name: found.curve(deep[name], "losses") for name in ARRANGED},
            log_y=True,
        ),
        Curves(
            title=f"First gradient, {layers}",
            x="encoder layer, from below",
            y="norm",
            series={name: found.curve(deep[name], "gradients") for name in ARRANGED},
            log_y=True,
        ),
    ]


def _loss(outcome: Plain) -> float:
    """The test NLL; of a training that broke off, the worst NLL that it had."""
    if outcome["nll"] is not None:
        return float(outcome["nll"])
    return max(loss for _, loss in outcome["losses"]) if outcome["losses"] else 10.0


def _fall(outcome: Plain) -> float:
    sizes = [size for _, size in outcome["gradients"]]
    return float(sizes[0] / sizes[-1])


def _broke_off(found: Found) -> str:
    broken = [
        f"{name} (at step {outcome['diverged_at']})"
        for name, outcomes in found.outcomes.items()
        for outcome in outcomes
        if outcome["diverged_at"] is not None
    ]
    if not broken:
        return "No training broke off."
    return f"Trainings that broke off with a loss that was not finite: {', '.join(broken)}."


STUDY = Study(
    name="residual-norm",
    claim="Residual connections and norms are what makes a deep stack trainable; the norm before "
    "each part trains more easily than the norm after it.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
