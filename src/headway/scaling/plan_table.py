"""What 100 to 10 million dollars buy."""

from __future__ import annotations

from headway.scaling.hardware import Hardware
from headway.scaling.laws import ParametricLaw
from headway.scaling.plan import Plan, make_plan
from headway.scaling.question import Question
from headway.scaling.units import duration, money, short

BUDGETS = tuple(10.0**power for power in range(2, 8))
COLUMNS = ("money", "size", "tokens", "loss", "machines", "time", "energy", "or size", "its loss")


def plan_table(machine: str, hardware: Hardware, law: ParametricLaw) -> list[Plan]:
    """The plan of each budget on one kind of machine, as many of it as finish in a month."""
    return [make_plan(Question(money=budget, machine=machine), hardware, law) for budget in BUDGETS]


def table_row(plan: Plan) -> list[str]:
    """The best choice of a plan, and the one that is half as large, as texts under `COLUMNS`."""
    best, half = plan.choices[:2]
    kwh = best.cost.kwh
    return [
        money(plan.question.money or 0.0),
        short(best.shape.parameters.all),
        short(best.tokens),
        f"{best.loss.likely:.3f}",
        f"{best.cost.devices:,}",
        duration(best.cost.hours.likely),
        "–" if kwh is None else f"{short(kwh)} kWh",
        short(half.shape.parameters.all),
        f"{half.loss.likely:.3f}",
    ]
