"""Why dot products are divided by √d_k: their variance, the softmax after them, and training."""

from __future__ import annotations

import math
from collections.abc import Mapping

from headway.lens.figures import Curves
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

VECTORS = "random vectors"
KEYS = 32  # keys that a softmax chooses from
SCORES = {"dot": "q·k", "scaled_dot": "q·k / √d_k"}
MEASURES = {  # what is measured of random vectors: its title and what its axis says
    "variance": ("Variance of the score", "variance"),
    "entropy": (f"Entropy of the softmax over {KEYS} keys", "relative to equal weights"),
    "gradient": ("Gradient of the softmax", "relative to equal weights"),
}
LARGE = 256  # d_k of the trainings that are compared


def _settings(quick: bool) -> Mapping[str, Plain]:
    widths = [4, 16, 64, 256, 1024] if quick else [4, 8, 16, 32, 64, 128, 256, 512, 1024]
    found: dict[str, Plain] = {
        VECTORS: {"widths": widths, "queries": 400 if quick else 4_000},
    }
    if quick:
        shared = {**quick_cldr(max_words=10), **quick_schedule(160, every=10)}
    else:
        shared = {
            **cldr(lines=30_000, max_words=12, test_lines=400),
            **schedule(300, batch_tokens=1024, rate=7e-3, every=10),
        }
    shared |= transformer(2, 128, 1)
    for width in (LARGE,) if quick else (16, LARGE):
        for score, shown in SCORES.items():
            keys = {**shared, "model.d_head": width, "model.score": score}
            found[f"{shown}, d_k = {width}"] = {"recipe": "cldr/transformer", "set": keys}
    return found


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, recipe_of, train_small

    if "widths" in settings:
        return random_scores(settings["widths"], settings["queries"], seed)
    trained = train_small(recipe_of(settings, seed), may_diverge=True)
    return {**judge(trained, (12,)), "last_loss": trained.last_loss}


def random_scores(widths: list[int], queries: int, seed: int) -> Plain:
    """What a width does to the scores of random vectors of unit variance.

    For each score, as [[width, value], …]: its variance; the entropy of the softmax, as a share of
    that of equal weights; and the size (Frobenius norm) of its gradient, the matrix diag(p) − p pᵀ,
    as a share of that at equal weights.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    even = math.sqrt((KEYS - 1) / KEYS**2)  # the gradient's size at equal weights
    found: Plain = {f"{what} {name}": [] for what in MEASURES for name in SCORES}
    for width in widths:
        query = torch.randn(queries, 1, width, generator=generator)
        key = torch.randn(queries, KEYS, width, generator=generator)
        scores = (query @ key.mT)[:, 0]  # (N, KEYS)
        for name, divisor in (("dot", 1.0), ("scaled_dot", math.sqrt(width))):
            weights = (scores / divisor).softmax(dim=-1)
            entropy = torch.special.entr(weights).sum(dim=-1).mean()
            gradient = weights.diag_embed() - weights[:, :, None] * weights[:, None]
            size = gradient.norm(dim=(1, 2)).mean()
            found[f"variance {name}"].append([width, float((scores / divisor).var())])
            found[f"entropy {name}"].append([width, float(entropy) / math.log(KEYS)])
            found[f"gradient {name}"].append([width, float(size) / even])
    return found


def _slope(points: list[list[float]]) -> float:
    """The exponent of y in x: least squares through the logarithms."""
    xs, ys = ([math.log(point[place]) for point in points] for place in (0, 1))
    middle, level = mean(xs), mean(ys)
    above = sum((x - middle) * (y - level) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - middle) ** 2 for x in xs)


def _slopes(found: Found, name: str) -> list[float]:
    return [_slope(outcome[f"variance {name}"]) for outcome in found[VECTORS]]


def _trained(found: Found) -> list[str]:
    return [name for name in found.outcomes if name != VECTORS]


def _large(found: Found) -> tuple[str, str]:
    """The names of the trainings with large heads: the dot product, and the scaled one."""
    dot, scaled = (name for name in _trained(found) if name.endswith(f"= {LARGE}"))
    return dot, scaled


def _checks(found: Found) -> list[Check]:
    widest, _ = found[VECTORS][0]["entropy dot"][-1]

    def last(what: str, name: str) -> float:
        return mean([outcome[f"{what} {name}"][-1][1] for outcome in found[VECTORS]])

    plain, scaled = _slopes(found, "dot"), _slopes(found, "scaled_dot")
    losses = [found.values(name, "nll") for name in _large(found)]
    return [
        Check(
            what="the variance of q·k grows as d_k, and dividing by √d_k keeps it",
            rule="an exponent of 1 and of 0, each within 0.05, in every seed",
            numbers=f"the variance goes as d_k to the power {mean(plain):.3f}, and divided to the "
            f"power {mean(scaled):.3f}",
            holds=all(abs(slope - 1.0) < 0.05 for slope in plain)
            and all(abs(slope) < 0.05 for slope in scaled),
        ),
        Check(
            what="large dot products push the softmax to where its gradient is small",
            rule="entropy and gradient below a third of the scaled ones at the largest d_k",
            numbers=f"at d_k = {widest} the entropy is {100 * last('entropy', 'dot'):.0f} % of "
            f"that of equal weights, scaled {100 * last('entropy', 'scaled_dot'):.0f} %; the "
            f"gradient is {last('gradient', 'dot'):.2f} times that at equal weights, scaled "
            f"{last('gradient', 'scaled_dot'):.2f}",
            holds=all(
                last(what, "dot") < last(what, "scaled_dot") / 3 for what in ("entropy", "gradient")
            ),
        ),
        Check(
            what="with large heads a Transformer learns better with the scaled score",
            rule="every seed scaled below every seed not scaled",
            numbers=f"the test NLL at d_k = {LARGE} is {mean(losses[1]):.3f} scaled and "
            f"{mean(losses[0]):.3f} not scaled",
            holds=all_above(losses[0], losses[1]),
            otherwise="Pre-norm and Muon, whose steps do not depend on the size of the gradient, "
            "can make up for scores that start out too large.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    return Conclusion(
        number=Number("exponent of d_k in the variance of q·k", over_seeds(_slopes(found, "dot"))),
        rows={
            name: {
                "test NLL": found.value(name, "nll"),
                "exact match, %": found.value(name, "exact_match"),
                "last training NLL": found.value(name, "last_loss"),
            }
            for name in _trained(found)
        },
        checks=_checks(found),
        text="Queries and keys are random, of unit variance; each softmax chooses from "
        f"{KEYS} keys.",
        title="Dot products against their width, with and without 1/√d_k",
        panels=_panels(found),
    )


def _panels(found: Found) -> list[Curves]:
    panels = [
        Curves(
            title=title,
            x="d_k",
            y=y,
            series={
                shown: found.curve(VECTORS, f"{what} {name}") for name, shown in SCORES.items()
            },
            log_x=True,
            log_y=what == "variance",
        )
        for what, (title, y) in MEASURES.items()
    ]
    large = zip(SCORES.values(), _large(found), strict=True)
    training = Curves(
        title=f"Training a Transformer, d_k = {LARGE}",
        x="step",
        y="NLL, nats a token",
        series={shown: found.curve(name, "losses") for shown, name in large},
    )
    return [*panels, training]


STUDY = Study(
    name="scaling-dk",
    claim="The dot product of two random vectors has a variance of d_k; without 1/√d_k the softmax "
    "saturates and its gradients vanish.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
