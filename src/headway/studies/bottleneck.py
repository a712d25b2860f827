"""One vector for a whole sentence: quality against source length, without attention and with it."""

from __future__ import annotations

from collections.abc import Mapping

from headway.lens.figures import Curves, Value
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

EDGES = (4, 8, 12, 16, 20)
RNN, ATTENTION, TRANSFORMER = "RNN", "RNN with attention", "Transformer"


def _settings(quick: bool) -> Mapping[str, Plain]:
    recurrent: Plain = {}
    width = 128
    if quick:
        shared = {
            **quick_cldr(max_words=16, test_lines=240),
            **quick_schedule(240),
        }
        recurrent = {"model.d_hidden": 128, "model.d_embedding": 64}
        width = 64
    else:
        shared = {
            **cldr(lines=40_000, max_words=24, test_lines=900),
            **schedule(600, batch_tokens=1024, rate=7e-3),
        }
    return {
        RNN: {"recipe": "cldr/rnn", "set": {**shared, **recurrent}},
        ATTENTION: {"recipe": "cldr/rnn-attention", "set": {**shared, **recurrent}},
        TRANSFORMER: {"recipe": "cldr/transformer", "set": {**shared, **transformer(2, width, 4)}},
    }


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, recipe_of, train_small

    return judge(train_small(recipe_of(settings, seed)), EDGES)


def _checks(found: Found) -> list[Check]:
    longest, kept = _longest(found), {n: found.values(n, _kept) for n in found.outcomes}
    return [
        Check(
            what="attention helps where the source is long",
            rule="every seed with attention above every seed without",
            numbers=f"exact match on {_words(found)} is {mean(longest[RNN]):.1f} % without and "
            f"{mean(longest[ATTENTION]):.1f} % with attention",
            holds=all_above(longest[ATTENTION], longest[RNN]),
            otherwise="A training too short for attention to find the alignment shows this.",
        ),
        Check(
            what="a state of fixed size loses more, the longer the source",
            rule="every seed's share with attention above every seed's without",
            numbers=f"from the shortest sources to the longest, {mean(kept[RNN]):.1f} % of the "
            f"chrF is left without attention and {mean(kept[ATTENTION]):.1f} % with it",
            holds=all_above(kept[ATTENTION], kept[RNN]),
            otherwise="Where little is right even on short sources, little can be lost.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    longest, words = _longest(found), _words(found)
    pairs = zip(longest[ATTENTION], longest[RNN], strict=True)
    gained = over_seeds([ours - theirs for ours, theirs in pairs])
    return Conclusion(
        number=Number(f"exact match that attention adds on {words}", gained, "points"),
        rows={
            name: {
                "exact match, %": found.value(name, "exact_match"),
                "on the longest, %": over_seeds(longest[name]),
                "chrF": found.value(name, "chrf"),
                "NLL": found.value(name, "nll"),
            }
            for name in found.outcomes
        },
        checks=_checks(found),
        text="The Transformer, which has nothing but attention, has "
        f"{mean(longest[TRANSFORMER]):.1f} % of the {words} exactly right after as many steps.",
        title="A source in one vector, or a look at every word of it",
        panels=[
            Curves(
                title=title,
                x="words of the source (middle of each range)",
                y="%",
                series={name: _by_length(found, name, key) for name in found.outcomes},
                percent=True,
            )
            for title, key in (("Exact match", "exact_match"), ("chrF", "chrf"))
        ],
    )


def _longest(found: Found) -> dict[str, list[float]]:
    """The exact match on the longest sources, one a seed."""
    return {
        name: found.values(name, lambda outcome: outcome["by_length"][-1]["exact_match"])
        for name in found.outcomes
    }


def _words(found: Found) -> str:
    return f"sources of {found[RNN][0]['by_length'][-1]['low']} words or more"


def _kept(outcome: Plain) -> float:
    """The chrF of the longest sources, in percent of that of the shortest.

    Not the exact match: it would fall with the length even if each word stayed as likely right.
    """
    first, last = outcome["by_length"][0], outcome["by_length"][-1]
    return 100.0 * float(last["chrf"]) / max(float(first["chrf"]), 1e-9)


def _by_length(found: Found, name: str, key: str) -> list[tuple[float, Value]]:
    points = []
    for place, part in enumerate(found[name][0]["by_length"]):
        high = part["high"] or part["low"] + 3
        value = over_seeds([outcome["by_length"][place][key] for outcome in found[name]])
        if value is not None:
            points.append(((part["low"] + high) / 2, value))
    return points


STUDY = Study(
    name="bottleneck",
    claim="A recurrent encoder must put the whole source into one vector, so long sources suffer; "
    "attention takes the bottleneck away.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
