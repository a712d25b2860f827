"""What 100 to 10 million dollars buy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.base.errors import UserError
from headway.lens.charts import curves_svg
from headway.scaling.hardware import Hardware
from headway.scaling.laws import ParametricLaw
from headway.scaling.pages import write_template
from headway.scaling.plan import Plan, Planned, assumptions, make_plan
from headway.scaling.plan_page import outside_text, plan_rows
from headway.scaling.question import Question
from headway.scaling.sizes import FOR_SERVING
from headway.scaling.units import duration, money, short

BUDGETS = tuple(10.0**power for power in range(2, 8))
COLUMNS = ("money", "size", "tokens", "loss", "machines", "time", "energy", "or size", "its loss")


def plan_table(
    machine: str,
    hardware: Hardware,
    law: ParametricLaw,
    *,
    utilisation: float | None = None,
    length: int | None = None,
    vocabulary: int | None = None,
) -> tuple[list[Plan], list[str]]:
    """The plan of each budget on one kind of machine, as many of it as finish in a month.

    And why the budgets that are left out are. Raises UserError if all are. What else is named is
    as in a `Question`.
    """
    plans: list[Plan] = []
    refused: list[UserError] = []
    for budget in BUDGETS:
        try:
            asked = Question(
                money=budget,
                machine=machine,
                utilisation=utilisation,
                length=length,
                vocabulary=vocabulary,
            )
            plans.append(make_plan(asked, hardware, law))
        except UserError as error:
            refused.append(error)
    if not plans:
        raise refused[0]
    return plans, [str(error) for error in refused]


def table_row(plan: Plan) -> list[str]:
    """The best choice of a plan, and the one that is half as large, as texts under `COLUMNS`."""
    best, kwh = plan.choices[0], plan.choices[0].cost.kwh
    half = _half(plan)
    return [
        money(plan.question.money or 0.0),
        short(best.shape.parameters.all),
        short(best.tokens),
        f"{best.loss.likely:.3f}",
        f"{best.cost.devices:,}",
        duration(best.cost.hours.likely),
        "–" if kwh is None else f"{short(kwh)} kWh",
        "–" if half is None else short(half.shape.parameters.all),
        "–" if half is None else f"{half.loss.likely:.3f}",
    ]


def write_table_page(plans: Sequence[Plan], refused: Sequence[str], path: Path) -> None:
    """Write the table as one page: a row and the whole plan of each budget, and the losses drawn.

    What all plans rest on is said once, what is of one budget alone with its plan. The page has no
    script and asks for nothing from elsewhere; every text in it is escaped.
    """
    from markupsafe import Markup

    said = [assumptions(plan) for plan in plans]
    common = [line for line in said[0] if all(line in lines for lines in said)]
    write_template(
        "plan_table.html.j2",
        path,
        machine=plans[0].machine.name,
        head=COLUMNS,
        rows=[table_row(plan) for plan in plans],
        refused=refused,
        chart=Markup(budget_chart(plans)),
        assumed=common,
        budgets=[
            {
                "money": money(plan.question.money or 0.0),
                "choices": plan.choices,
                "rows": plan_rows(plan),
                "own": [line for line in lines if line not in common] + outside_text(plan),
            }
            for plan, lines in zip(plans, said, strict=True)
        ],
    )


def budget_chart(plans: Sequence[Plan]) -> str:
    """The expected loss by money: of the best size, and of the one that is half as large."""
    series: dict[str, list[tuple[float, float]]] = {"best size": [], "half the size": []}
    for plan in plans:
        for curve, choice in zip(series.values(), (plan.choices[0], _half(plan)), strict=True):
            if choice is not None:
                curve.append((plan.question.money or 0.0, choice.loss.likely))
    return curves_svg(series, x="dollars", y="Expected loss, nats a token", log_x=True)


def _half(plan: Plan) -> Planned | None:
    return next((choice for choice in plan.choices if choice.name == FOR_SERVING), None)
