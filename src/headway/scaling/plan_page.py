"""A plan to be read: rows for a terminal, and one page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from headway.lens.charts import curves_svg
from headway.scaling.costs import Range, flops_a_token
from headway.scaling.pages import write_template
from headway.scaling.plan import Plan, Planned, assumptions, expected_loss
from headway.scaling.plan_recipe import is_trainable, plan_recipe
from headway.scaling.shapes import shapes_of
from headway.scaling.units import duration, money, short
from headway.settings.toml import dump_toml

Rows = list[tuple[str, list[str]]]
_SPAN = 12.0  # sizes from the best one over this to the best one times this are drawn
_POINTS = 81
_LEAST = 4e5  # parameters: smaller shapes come in steps that are too large for a curve


def plan_rows(plan: Plan) -> Rows:
    """A row a fact with a value a choice; facts that no choice has are left out."""
    found = [(name, [say(choice) for choice in plan.choices]) for name, say in _FACTS]
    return [(name, values) for name, values in found if any(values)]


def question_text(plan: Plan) -> str:
    """What was asked, in a line."""
    ask = plan.question
    said = [
        ("money", ask.money and money(ask.money)),
        ("time", ask.hours and duration(ask.hours)),
        ("parameters", ask.params and short(ask.params)),
        ("training tokens", ask.tokens and short(ask.tokens)),
        ("loss", ask.loss and f"{ask.loss:g}"),
        ("tokens served", ask.serve_tokens and short(ask.serve_tokens)),
        ("tokens of text", ask.unique_tokens and short(ask.unique_tokens)),
    ]
    given = ", ".join(f"{name} {value}" for name, value in said if value)
    return f"{given[:1].upper()}{given[1:]}, on {plan.machine.name}"


def outside_text(plan: Plan) -> list[str]:
    """Which choices are outside of what the law was measured on, and which no law can speak of; no
    line if none is.
    """
    names = [choice.name for choice in plan.choices if choice.outside]
    known = plan.law.measured
    spans = [
        f"{short(span[0])} to {short(span[1])} {what}"
        for what, span in (
            ("parameters", known.params),
            ("training tokens", known.tokens),
            ("FLOPs", known.flop),
        )
        if span is not None
    ]
    said = []
    if names:
        where = f"{', '.join(spans)}): {', '.join(names)}"
        said = [f"? is outside what the law was measured on ({where}."]
    ids = {each.shape.n_tokens for each in plan.choices}
    for n, bound in ((n, math.log(n)) for n in sorted(ids)):
        worse = [c.name for c in plan.choices if c.shape.n_tokens == n and c.loss.likely > bound]
        if worse:
            said.append(
                f"Guessing among {n:,} ids has a loss of ln {n:,} = {bound:.2f}: what the law says "
                f"is above it and no loss to expect: {', '.join(worse)}."
            )
    return said


def write_page(plan: Plan, path: Path) -> None:
    """Write the plan as one page: choices side by side, what decides, the recipes.

    It has no script and asks for nothing from elsewhere; every text in it is escaped.
    """
    from markupsafe import Markup

    write_template(
        "plan.html.j2",
        path,
        question=question_text(plan),
        choices=plan.choices,
        rows=plan_rows(plan),
        chart=Markup(size_chart(plan)),
        flops=short(plan.choices[0].flops),
        outside=outside_text(plan),
        assumed=assumptions(plan),
        recipes=[
            (each.name, dump_toml(plan_recipe(each, plan.question.machine)))
            for each in plan.choices
            if is_trainable(each)
        ],
    )


def size_chart(plan: Plan) -> str:
    """The loss by size for the compute of the first choice, and where the choices are."""
    first = plan.choices[0]
    best = float(first.shape.parameters.all)
    curve = []
    steps = (best * _SPAN ** (2 * step / (_POINTS - 1) - 1) for step in range(_POINTS))
    for shape in shapes_of((max(params, _LEAST) for params in steps), like=first.shape):
        params, tokens = float(shape.parameters.all), first.flops / flops_a_token(shape)
        curve.append((params, expected_loss(plan.law, params, tokens, tokens).likely))
    series = {"new text, all compute in training": curve}
    for choice in plan.choices:
        series[choice.name] = [(float(choice.shape.parameters.all), choice.loss.likely)]
    return curves_svg(series, x="parameters", y="Expected loss, nats a token", log_x=True)


def _between(spread: Range, say: Callable[[float], str]) -> str:
    """The least and the greatest, a unit of both once; nothing where they are one."""
    if spread.low == spread.high:
        return ""
    (low, _, unit), high = say(spread.low).partition(" "), say(spread.high)
    return f"{low if high.endswith(f' {unit}') else say(spread.low)} to {high}"


def _shape(choice: Planned) -> str:
    return f"{choice.shape.settings.n_layers} × {choice.shape.settings.d_model}"


def _passes(choice: Planned) -> str:
    if choice.epochs <= 1.001:
        return ""
    return f"{choice.epochs:.1f} × {short(choice.unique_tokens)}"


def _memory(choice: Planned) -> str:
    placement = choice.placement
    if placement is None:
        return "too little"
    return f"{placement.bytes.peak / 1e9:.1f} of {placement.memory / 1e9:.0f} GB"


def _work(choice: Planned) -> str:
    placement = choice.placement
    return f"{placement.dtype}, {placement.rows} rows" if placement else ""


def _energy(choice: Planned) -> str:
    kwh = choice.cost.kwh
    return "" if kwh is None else f"{short(kwh)} kWh"


def _total(choice: Planned) -> str:
    if choice.serving is None or choice.serving.usd is None or choice.cost.usd is None:
        return ""
    return money(choice.cost.usd.likely + choice.serving.usd.likely)


def _serving(choice: Planned) -> str:
    if choice.serving is None:
        return ""
    usd = choice.serving.usd
    return money(usd.likely) if usd else duration(choice.serving.hours.likely)


_RANGE = "… range"
_FACTS: Sequence[tuple[str, Callable[[Planned], str]]] = (
    ("parameters, all", lambda each: short(each.shape.parameters.all)),
    ("… without embeddings", lambda each: short(each.shape.parameters.without_embeddings)),
    ("layers × width", _shape),
    ("vocabulary", lambda each: f"{each.shape.n_tokens:,}"),
    ("training tokens", lambda each: short(each.tokens)),
    ("… a parameter", lambda each: short(each.tokens / each.shape.parameters.all)),
    ("passes × text", _passes),
    ("expected loss", lambda each: f"{each.loss.likely:.3f}{' ?' if each.outside else ''}"),
    (_RANGE, lambda each: _between(each.loss, "{:.3f}".format)),
    ("FLOPs, counted", lambda each: short(each.flops)),
    ("FLOPs, 6 · N · D", lambda each: short(each.flops_6nd)),
    ("machines", lambda each: f"{each.cost.devices:,}"),
    ("memory of each", _memory),
    ("… at a time", _work),
    ("… and takes", lambda each: each.placement.text() if each.placement else "more machines"),
    ("tokens a second", lambda each: short(each.cost.tokens_per_second.likely)),
    ("time", lambda each: duration(each.cost.hours.likely)),
    (_RANGE, lambda each: _between(each.cost.hours, duration)),
    ("money", lambda each: money(each.cost.usd.likely) if each.cost.usd else ""),
    (_RANGE, lambda each: _between(each.cost.usd, money) if each.cost.usd else ""),
    ("energy", _energy),
    ("serving", _serving),
    ("money in all", _total),
)
