"""Attention sees a set: what positions are for, and how each kind does on longer texts."""

from __future__ import annotations

from collections.abc import Mapping

from headway.lens.figures import Bars, Value
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

KINDS = ("none", "learned", "sinusoidal", "rotary")
TOLD = KINDS[1:]
SHORT, LONG = 12, 24  # words of the longest texts in training, and in the test
EXACT = 1e-5  # float32 sums in another order differ by less


def _settings(quick: bool) -> Mapping[str, Plain]:
    if quick:
        task = quick_cldr(max_words=SHORT, test_words=LONG, test_lines=200)
        shared = {**task, **quick_schedule(220), **transformer(2, 96, 4)}
    else:
        shared = {
            **cldr(lines=30_000, max_words=SHORT, test_words=LONG),
            **schedule(450, batch_tokens=1024, rate=7e-3),
            **transformer(2, 128, 4),
        }
    return {
        kind: {"recipe": "cldr/transformer", "set": {**shared, "model.positions": kind}}
        for kind in KINDS
    }


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, recipe_of, train_small

    recipe = recipe_of(settings, seed)
    found = judge(train_small(recipe), (8, SHORT, 16))
    kind, width = settings["set"]["model.positions"], settings["set"]["model.d_model"]
    return {**found, "moved": permutation_change(kind, width, seed)}


def permutation_change(kind: str, width: int, seed: int) -> float:
    """How far an encoder with first weights is from giving permuted outputs for permuted inputs.

    The greatest difference, in float32, between the outputs for 20 permuted tokens and the
    permuted outputs for the tokens, as a share of the greatest output.
    """
    import torch

    from headway.models.build import build
    from headway.models.seq2seq import Transformer
    from headway.settings.base import parse
    from headway.settings.model import TransformerSettings

    table = {"d_model": width, "d_feed_forward": 2 * width, "n_heads": 4, "positions": kind}
    table |= {"n_encoder_layers": 2, "n_decoder_layers": 1}
    settings = parse(TransformerSettings, table, where="study order")
    model = build(settings, n_source=50, n_target=50, seed=seed)
    assert isinstance(model, Transformer), "the settings are a Transformer's"
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(50, (1, 20), generator=generator)
    order = torch.randperm(20, generator=generator)
    real = torch.ones(1, 20, dtype=torch.bool)
    with torch.no_grad():
        plain = model.encode(ids, real).hidden
        permuted = model.encode(ids[:, order], real).hidden
    return float((permuted - plain[:, order]).abs().max() / plain.abs().max())


def _checks(found: Found) -> list[Check]:
    moved = {kind: found.values(kind, "moved") for kind in KINDS}
    within, beyond = _within(found), _beyond(found)
    return [
        Check(
            what="an encoder without positions gives permuted outputs for permuted inputs",
            rule=f"a difference below {EXACT:g} without, above 0.01 with each kind of positions",
            numbers="the greatest relative difference is "
            + ", ".join(f"{max(moved[kind]):.1e} ({kind})" for kind in KINDS),
            holds=max(moved["none"]) < EXACT and all(min(moved[kind]) > 0.01 for kind in TOLD),
        ),
        Check(
            what="a task in which order matters needs positions",
            rule="every seed of every kind above every seed without",
            numbers=f"exact match on the lengths of training is, in percent, {_list(within)}",
            holds=all(all_above(within[kind], within["none"]) for kind in TOLD),
            otherwise="The decoder can count by its causal mask, and so guess some order.",
        ),
        Check(
            what="on texts longer than any in training, sinusoidal positions do better than "
            "learned ones",
            rule="every seed of sinusoidal above every seed of learned",
            numbers=f"chrF on {SHORT + 1} to {LONG} words, trained on at most {SHORT}, is "
            f"{_list(beyond)}",
            holds=all_above(beyond["sinusoidal"], beyond["learned"]),
            otherwise="That sinusoids are defined beyond the trained lengths does not mean that "
            "the network has learnt to read them there.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    within, beyond = _within(found), _beyond(found)
    best, longest = (max(TOLD, key=lambda kind: mean(part[kind])) for part in (within, beyond))
    gains = zip(within[best], within["none"], strict=True)
    return Conclusion(
        number=Number(
            f"exact match that {best} positions add to none, on the lengths of training",
            over_seeds([ours - theirs for ours, theirs in gains]),
            "points",
        ),
        rows={
            kind: {
                "permutation changes": found.value(kind, "moved"),
                f"exact, to {SHORT} words, %": over_seeds(within[kind]),
                f"exact, {SHORT + 1} to {LONG}, %": found.value(
                    kind, lambda outcome: _weighed(outcome, "exact_match", beyond=True)
                ),
                f"chrF, {SHORT + 1} to {LONG}": over_seeds(beyond[kind]),
            }
            for kind in KINDS
        },
        checks=_checks(found),
        text=f"On texts longer than any in training, {longest} positions do best.",
        title=f"Positions: none and three kinds, trained on texts of at most {SHORT} words",
        panels=[_panel(found, "exact_match", "Exact match"), _panel(found, "chrf", "chrF")],
    )


def _within(found: Found) -> dict[str, list[float]]:
    """The exact match on the lengths of training, one a seed."""
    return {
        kind: found.values(kind, lambda outcome: _weighed(outcome, "exact_match", beyond=False))
        for kind in KINDS
    }


def _beyond(found: Found) -> dict[str, list[float]]:
    """chrF on lengths beyond training, one a seed."""
    return {
        kind: found.values(kind, lambda outcome: _weighed(outcome, "chrf", beyond=True))
        for kind in KINDS
    }


def _weighed(outcome: Plain, key: str, *, beyond: bool) -> float:
    """The mean over the ranges of length within or beyond those of training, by their sentences."""
    parts = [part for part in outcome["by_length"] if (part["low"] > SHORT) is beyond]
    total: int = sum(part["n"] for part in parts)
    return float(sum(part[key] * part["n"] for part in parts) / total)


def _panel(found: Found, key: str, title: str) -> Bars:
    ranges = found["none"][0]["by_length"]
    groups = [f"{part['low']}–{part['high'] or LONG}" for part in ranges]
    for place, part in enumerate(ranges):
        if part["low"] > SHORT:
            groups[place] += "\n(unseen)"
    series: dict[str, list[Value | None]] = {
        kind: [
            over_seeds([outcome["by_length"][place][key] for outcome in found[kind]])
            for place in range(len(ranges))
        ]
        for kind in KINDS
    }
    return Bars(
        title=title, x="words of the source", y="%", groups=groups, series=series, percent=True
    )


def _list(values: dict[str, list[float]]) -> str:
    return ", ".join(f"{mean(found):.1f} ({kind})" for kind, found in values.items())


STUDY = Study(
    name="order",
    claim="Attention sees a set, not a sequence: positions must be added; sinusoidal ones may "
    "carry on to lengths beyond training.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
