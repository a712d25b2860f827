"""What 100 to 10 million dollars buy."""

from __future__ import annotations

from headway.base.errors import UserError
from headway.scaling.hardware import Hardware
from headway.scaling.laws import ParametricLaw
from headway.scaling.plan import Plan, make_plan
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
    half = next((choice for choice in plan.choices if choice.name == FOR_SERVING), None)
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
