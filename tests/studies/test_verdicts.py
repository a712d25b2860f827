"""Each study's verdict follows from the numbers: made-up outcomes that bear the lecture out, and
the same with one thing turned round.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.lens.figures import draw_panels
from headway.studies import heads, order, residual_norm, scaling_dk
from headway.studies.base import Conclusion, Found, Plain
from headway.studies.listing import find_study

LOSSES = [[10, 3.0], [20, 1.0]]
WIDTHS = (4, 64, 1024)


def outcome(nll: float, exact: float, *ranges: tuple[int, int | None, float], **more: Any) -> Plain:
    """An outcome with the same exact match (and 10 more of chrF) at every length, or `ranges`."""
    parts = ranges or ((1, 8, exact), (9, None, exact))
    by_length = [
        {"low": low, "high": high, "n": 10, "exact_match": value, "chrf": value + 10}
        for low, high, value in parts
    ]
    scores = {"nll": nll, "token_accuracy": 90.0, "exact_match": exact, "chrf": exact + 10}
    return {**scores, "by_length": by_length, "losses": LOSSES, **more}


def seeds(one: Plain, key: str = "nll") -> list[Plain]:
    """Two seeds that differ a little."""
    return [one, {**one, key: one[key] * 1.01}]


def bottleneck(turned: int = -1) -> dict[str, list[Plain]]:
    long_rnn, long_attention = (60.0, 10.0) if turned == 0 else (10.0, 60.0)
    short = 5.0 if turned == 1 else 80.0
    rnn = outcome(1.0, 40.0, (1, 4, short), (5, 8, 40.0), (21, None, long_rnn))
    attention = outcome(0.5, 70.0, (1, 4, 90.0), (5, 8, 70.0), (21, None, long_attention))
    return {"RNN": seeds(rnn), "RNN with attention": seeds(attention), "Transformer": seeds(rnn)}


def scores(turned: int = -1) -> dict[str, list[Plain]]:
    exact = {"none": 10.0, "dot": 50.0, "scaled dot": 55.0, "bilinear": 60.0, "low-rank": 52.0}
    exact["additive"] = 62.0
    if turned == 0:
        exact["dot"] = 5.0
    if turned == 1:
        exact["additive"] = 99.0
    speed = dict.fromkeys(exact, 9000.0) | {"additive": 9999.0 if turned == 2 else 6000.0}
    return {
        name: seeds(
            outcome(1.0, value, score_parameters=7, tokens_per_s=speed[name]), "exact_match"
        )
        for name, value in exact.items()
    }


def dk(turned: int = -1) -> dict[str, list[Plain]]:
    power = 0.5 if turned == 0 else 1.0
    saturated = 0.9 if turned == 1 else 0.1
    measured: Plain = {"variance scaled_dot": [[w, 1.1] for w in WIDTHS]}
    measured["variance dot"] = [[w, 1.1 * w**power] for w in WIDTHS]
    for what in ("entropy", "gradient"):
        measured[f"{what} dot"] = [[w, saturated] for w in WIDTHS]
        measured[f"{what} scaled_dot"] = [[w, 0.95] for w in WIDTHS]
    dot = 0.2 if turned == 2 else 0.9
    return {
        scaling_dk.VECTORS: [measured, measured],
        "q·k, d_k = 256": seeds(outcome(dot, 10.0, last_loss=dot)),
        "q·k / √d_k, d_k = 256": seeds(outcome(0.5, 20.0, last_loss=0.5)),
    }


def positions(turned: int = -1) -> dict[str, list[Plain]]:
    found = {}
    for kind in order.KINDS:
        within = 10.0 if kind == "none" and turned != 1 else 80.0
        beyond = 60.0 if kind == "learned" and turned == 2 else 20.0 + 10 * (kind == "sinusoidal")
        moved = 1e-15 if kind == "none" and turned != 0 else 0.3
        ranges = ((1, 8, within), (9, 12, within), (13, 16, beyond), (17, None, beyond))
        found[kind] = seeds(outcome(0.5, 40.0, *ranges, moved=moved))
    return found


def mask(turned: int = -1) -> dict[str, list[Plain]]:
    future = outcome(0.3 if turned == 0 else 0.001, 50.0 if turned == 1 else 0.0, last_loss=0.0)
    return {
        "causal mask": seeds(outcome(0.3, 60.0, last_loss=0.2)),
        "sees the future": seeds(future),
    }


def residual(turned: int = -1) -> dict[str, list[Plain]]:
    nll = dict(zip(residual_norm.ARRANGED, (0.3, 0.6, 2.5, 0.9), strict=True))
    fall = dict.fromkeys(nll, 1.0) | {"no residual": 0.5 if turned == 1 else 0.001}
    for check, name, value in ((0, "no residual", 0.4), (2, "no norm", 0.2), (3, "post-norm", 0.2)):
        nll[name] = value if turned == check else nll[name]
    return {
        f"{name}, {depth}+{depth}": seeds(
            outcome(value, 10.0, gradients=[[1, fall[name]], [depth, 1.0]], diverged_at=None)
        )
        for depth in (2, 8)
        for name, value in nll.items()
    }


def many_heads(turned: int = -1) -> dict[str, list[Plain]]:
    nll = dict(zip(heads.COUNTS, (0.9, 0.6, 0.5, 0.6, 0.7), strict=True))
    if turned == 0:
        nll[1] = 0.4
    if turned == 1:
        nll[16] = 0.1
    return {heads._name(n): seeds(outcome(nll[n], 50.0, parameters=1000)) for n in heads.COUNTS}


MADE: dict[str, tuple[Callable[..., dict[str, list[Plain]]], int]] = {
    "bottleneck": (bottleneck, 2),
    "scores": (scores, 3),
    "scaling-dk": (dk, 3),
    "order": (positions, 3),
    "causal-mask": (mask, 2),
    "residual-norm": (residual, 4),
    "heads": (many_heads, 2),
}


def conclude(name: str, outcomes: dict[str, list[Plain]]) -> Conclusion:
    return find_study(name).conclude(Found(outcomes))


@pytest.mark.parametrize("name", MADE)
def test_numbers_that_bear_the_lecture_out(name: str, tmp_path: Path) -> None:
    make, n_checks = MADE[name]
    conclusion = conclude(name, make())
    assert [check.sentence() for check in conclusion.checks if not check.holds] == []
    assert len(conclusion.checks) == n_checks
    assert conclusion.paragraph().count("As the lecture says") == n_checks
    assert "nan" not in conclusion.paragraph()
    assert set(conclusion.rows) <= set(make())
    draw_panels(conclusion.panels, tmp_path / "a.svg", title=conclusion.title)
    ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "check"), [(name, n) for name, (_, count) in MADE.items() for n in range(count)]
)
def test_numbers_that_do_not(name: str, check: int) -> None:
    conclusion = conclude(name, MADE[name][0](check))
    assert not conclusion.checks[check].holds
    assert not conclusion.holds
    assert "these numbers do not show it" in conclusion.checks[check].sentence()


def test_a_model_that_is_weaker_at_every_length_alike_shows_no_bottleneck() -> None:
    """A word in ten wrong, wherever it stands: of whole sentences fewer are right, the longer."""
    made = bottleneck()
    for name, right in (("RNN", 0.9), ("RNN with attention", 0.99)):
        each = outcome(1.0, 40.0, *((low, None, 100 * right**low) for low in (2, 24)))
        for part in each["by_length"]:
            part["chrf"] = 100 * right
        made[name] = seeds(each)
    check = conclude("bottleneck", made).checks[1]
    assert not check.holds
    assert "100.0 % of the chrF is left without attention and 100.0 % with it" in check.numbers


def test_the_number_is_over_the_seeds() -> None:
    made = bottleneck()
    made["RNN"][1] = outcome(1.0, 40.0, (1, 4, 80.0), (5, 8, 40.0), (21, None, 30.0))
    value = conclude("bottleneck", made).number.value
    assert value is not None
    assert (value.mean, value.low, value.high) == (40.0, 30.0, 50.0)


def test_a_training_that_broke_off_is_told() -> None:
    made = residual()
    broken = {"nll": None, "exact_match": None, "chrf": None, "by_length": [], "losses": LOSSES}
    broken |= {"diverged_at": 21, "gradients": [[1, 0.5], [8, 1.0]]}
    made["no norm, 8+8"] = [broken, broken]
    conclusion = conclude("residual-norm", made)
    assert "no norm, 8+8 (at step 21)" in conclusion.paragraph()
    assert conclusion.rows["no norm, 8+8"]["test NLL"] is None
    assert conclusion.checks[2].holds  # the worst loss that it had is above that of pre-norm
