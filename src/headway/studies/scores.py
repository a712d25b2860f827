"""The five scores and none, in the decoder of a recurrent network: quality and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headway.lens.figures import Bars
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
from headway.studies.tasks import cldr, quick_cldr, quick_schedule, schedule

NAMES = {
    "none": "none",
    "dot": "dot",
    "scaled dot": "scaled_dot",
    "bilinear": "bilinear",
    "low-rank": "low_rank_bilinear",
    "additive": "additive",
}
SCORED = tuple(name for name in NAMES if name != "none")
RANKS = {"low_rank_bilinear": 32, "additive": 64}


def _settings(quick: bool) -> Mapping[str, Plain]:
    if quick:
        shared = {**quick_cldr(max_words=12), **quick_schedule(180)}
    else:
        shared = {
            **cldr(lines=30_000, max_words=16, test_lines=500),
            **schedule(450, batch_tokens=1024, rate=7e-3),
        }
    width = 128 if quick else 192
    shared |= {"model.d_hidden": width, "model.d_embedding": width // 2}
    found = {}
    for shown, score in NAMES.items():
        keys = {**shared, "model.score": score}
        if score in RANKS:
            keys["model.score_rank"] = RANKS[score]
        found[shown] = {"recipe": "cldr/rnn", "set": keys}
    return found


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, recipe_of, train_small

    trained = train_small(recipe_of(settings, seed))
    score = getattr(trained.translator.model, "score", None)
    weights = sum(weight.numel() for weight in score.parameters()) if score is not None else 0
    return {
        **judge(trained, (8,)),
        "score_parameters": weights,
        "tokens_per_s": trained.tokens_per_s,
    }


def _means(found: Found, key: str) -> dict[str, float]:
    return {name: mean(found.values(name, key)) for name in NAMES}


def _checks(found: Found) -> list[Check]:
    exact = {name: found.values(name, "exact_match") for name in NAMES}
    means, speed = _means(found, "exact_match"), _means(found, "tokens_per_s")
    best, worst = (pick(SCORED, key=means.__getitem__) for pick in (max, min))
    products = [speed[name] for name in SCORED if name != "additive"]
    return [
        Check(
            what="any of the scores is better than no attention",
            rule="every seed of every score above every seed without",
            numbers=f"exact match is {means['none']:.1f} % without and from {means[worst]:.1f} % "
            f"({worst}) to {means[best]:.1f} % ({best}) with a score",
            holds=all(all_above(exact[name], exact["none"]) for name in SCORED),
            otherwise="So short a training may end before attention has found the alignment.",
        ),
        Check(
            what="having attention matters more than which score it has",
            rule="the gap from none to the worst score wider than from the worst to the best",
            numbers=f"{means[worst] - means['none']:.1f} points against "
            f"{means[best] - means[worst]:.1f}",
            holds=means[worst] - means["none"] > means[best] - means[worst],
            otherwise="Scores differ in how soon they find the alignment, and longer trainings "
            "bring them closer together: a state's numbers are within −1 and 1, so that a product "
            "divided by √d_k is near 0 and attention begins flat.",
        ),
        Check(
            what="the additive score costs more than those that are products",
            rule="fewer tokens a second in the fastest 20 steps than each of them, by the mean",
            numbers=f"additive trains {speed['additive']:,.0f} target tokens a second, the "
            f"products from {min(products):,.0f}",
            holds=speed["additive"] < min(products),
            otherwise="In a network this small the recurrent steps take most of the time.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    means, speed = _means(found, "exact_match"), _means(found, "tokens_per_s")
    best, worst = (pick(SCORED, key=means.__getitem__) for pick in (max, min))
    quickest, slowest = (pick(SCORED, key=speed.__getitem__) for pick in (max, min))
    exact = [found.values(name, "exact_match") for name in (best, "none")]
    columns = {
        "exact match, %": "exact_match",
        "chrF": "chrf",
        "test NLL": "nll",
        "parameters of the score": "score_parameters",
        "target tokens/s": "tokens_per_s",
    }
    return Conclusion(
        number=Number(
            f"exact match that the best score ({best}) adds to none",
            over_seeds([ours - theirs for ours, theirs in zip(*exact, strict=True)]),
            "points",
        ),
        rows={
            name: {column: found.value(name, key) for column, key in columns.items()}
            for name in NAMES
        },
        checks=_checks(found),
        text=f"Of the scores, {best} is best and {worst} worst here; {quickest} trains fastest and "
        f"{slowest} slowest.",
        title="Six recurrent decoders: no attention, and five scores",
        panels=_panels(found),
    )


def _panels(found: Found) -> list[Bars]:
    groups = list(NAMES)
    shown: tuple[tuple[str, str, Callable[[Plain], Any]], ...] = (
        ("Exact match", "%", lambda outcome: outcome["exact_match"]),
        ("Test NLL (lower is better)", "nats a token", lambda outcome: outcome["nll"]),
        (
            "Training, fastest 20 steps",
            "thousand tokens a second",
            lambda outcome: outcome["tokens_per_s"] / 1000,
        ),
    )
    return [
        Bars(
            title=title,
            y=y,
            groups=groups,
            series={"": [found.value(name, look) for name in NAMES]},
            percent=y == "%",
        )
        for title, y, look in shown
    ]


STUDY = Study(
    name="scores",
    claim="Any score that lets the decoder look at the source beats none; products are cheap, the "
    "additive score costs more.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
