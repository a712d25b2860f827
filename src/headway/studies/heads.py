"""One head to sixteen, at equal parameters."""

from __future__ import annotations

from collections.abc import Mapping

from headway.lens.figures import Bars, Curves
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

WIDTH = 128
COUNTS = (1, 2, 4, 8, 16)
SEVERAL, TOO_MANY = 4, 16  # chosen before anything was measured in full


def _settings(quick: bool) -> Mapping[str, Plain]:
    if quick:
        shared = {**quick_cldr(max_words=12), **quick_schedule(140)}
    else:
        shared = {
            **cldr(lines=30_000, max_words=16, test_lines=500),
            **schedule(420, batch_tokens=1024, rate=7e-3),
        }
    return {
        _name(heads): {
            "recipe": "cldr/transformer",
            "set": {**shared, **transformer(2, WIDTH, heads)},
        }
        for heads in COUNTS
    }


def _name(heads: int) -> str:
    return f"{heads} head{'s' if heads > 1 else ''} of {WIDTH // heads}"


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, recipe_of, train_small

    trained = train_small(recipe_of(settings, seed))
    return {**judge(trained, (8,)), "parameters": trained.translator.n_parameters}


def _checks(found: Found) -> list[Check]:
    losses = {heads: found.values(_name(heads), "nll") for heads in (1, SEVERAL, TOO_MANY)}
    told = {heads: f"{mean(nll):.3f} with {heads}" for heads, nll in losses.items()}
    return [
        Check(
            what="several heads learn better than one of the same size together",
            rule=f"every seed of {SEVERAL} heads below every seed of one head",
            numbers=f"the test NLL is {told[1]} head and {told[SEVERAL]}",
            holds=all_above(losses[1], losses[SEVERAL]),
            otherwise="The seeds differ by more than the heads do on this task.",
        ),
        Check(
            what="too many heads, each of them narrow, do worse again",
            rule=f"every seed of {TOO_MANY} heads above every seed of {SEVERAL}",
            numbers=f"the test NLL is {told[SEVERAL]} and {told[TOO_MANY]}",
            holds=all_above(losses[TOO_MANY], losses[SEVERAL]),
            otherwise="Heads of 8 numbers are still wide enough to tell these few words apart.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    exact = [found.values(_name(heads), "exact_match") for heads in (SEVERAL, 1)]
    sizes = {int(size) for heads in COUNTS for size in found.values(_name(heads), "parameters")}
    same = f"All have {sizes.pop():,} parameters." if len(sizes) == 1 else "Parameters differ."
    columns = {"exact match, %": "exact_match", "chrF": "chrf", "test NLL": "nll"}
    return Conclusion(
        number=Number(
            f"exact match that {SEVERAL} heads add to one",
            over_seeds([ours - theirs for ours, theirs in zip(*exact, strict=True)]),
            "points",
        ),
        rows={
            _name(heads): {
                column: found.value(_name(heads), key) for column, key in columns.items()
            }
            for heads in COUNTS
        },
        checks=_checks(found),
        text=f"{same} Attention of {WIDTH} numbers is cut into heads.",
        title="One to sixteen heads at equal parameters",
        panels=_panels(found),
    )


def _panels(found: Found) -> list[Bars | Curves]:
    def bars(title: str, y: str, key: str) -> Bars:
        return Bars(
            title=title,
            x="heads",
            y=y,
            groups=[str(heads) for heads in COUNTS],
            series={"": [found.value(_name(heads), key) for heads in COUNTS]},
            percent=y == "%",
        )

    return [
        bars("Exact match", "%", "exact_match"),
        bars("Test NLL (lower is better)", "nats a token", "nll"),
        Curves(
            title="Training",
            x="step",
            y="NLL, nats a token",
            series={_name(heads): found.curve(_name(heads), "losses") for heads in COUNTS},
            log_y=True,
        ),
    ]


STUDY = Study(
    name="heads",
    claim="Several heads look at several things at once: at equal parameters they beat one head, "
    "and too many narrow ones do worse again.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
