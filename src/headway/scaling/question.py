"""What is asked of a plan, and whether it is enough and makes sense."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from headway.base.errors import UserError
from headway.scaling.costs import MOST_DEVICES
from headway.scaling.hardware import Machine
from headway.scaling.laws import positive
from headway.scaling.units import duration, money, short

MACHINE = "h100-sxm"


@dataclass(frozen=True)
class Question:
    """Any part of a plan; what is None is to be found.

    `money` (USD) and `hours` pay for training, and for reading and writing `serve_tokens` later.
    `params` are all parameters, `tokens` what is trained on, `unique_tokens` how much text there
    is; `loss` is wanted in nats a token. `length` tokens make a text. `utilisation` replaces what
    the table of machines says.
    """

    money: float | None = None
    hours: float | None = None
    machine: str = MACHINE
    devices: int | None = None
    params: float | None = None
    tokens: float | None = None
    loss: float | None = None
    serve_tokens: float | None = None
    unique_tokens: float | None = None
    length: int | None = None
    vocabulary: int | None = None
    utilisation: float | None = None

    def __post_init__(self) -> None:
        given = {
            name: float(value)
            for name, value in dataclasses.asdict(self).items()
            if isinstance(value, int | float)
        }
        positive(**given)
        if self.utilisation is not None and self.utilisation > 1:
            raise UserError(
                f"a utilisation is a share of the peak, at most 1, not {self.utilisation:g}",
                where="--utilisation",
            )
        if self.devices is not None and self.devices > MOST_DEVICES:
            raise UserError(f"at most {MOST_DEVICES:,} machines", where="--machine")
        if None not in (self.params, self.tokens, self.loss):
            raise UserError(
                "of size, tokens and loss any two give the third: these three contradict",
                where="--params, --tokens, --loss",
                todo="leave one out",
            )
        if not self.has_budget and not any((self.params, self.tokens, self.loss)):
            raise UserError(
                "that is not enough to plan with",
                todo="give one of --money, --hours, --params, --tokens, --loss at least",
            )

    @property
    def has_budget(self) -> bool:
        """Whether money or time bound the compute."""
        return self.money is not None or self.hours is not None

    @property
    def is_settled(self) -> bool:
        """Whether what is to be trained follows without a budget."""
        return self.loss is not None or None not in (self.params, self.tokens)


def machine_of(text: str) -> tuple[str, int | None]:
    """ "h100-sxm:8" -> its name and how many there are, None where it does not say."""
    name, colon, count = text.partition(":")
    if not colon:
        return name, None
    if not (count.isascii() and count.isdigit() and 0 < int(count[:9]) <= MOST_DEVICES):
        raise UserError(
            f"'{count}' is no number of machines",
            where="--machine",
            todo=f"write NAME:COUNT, such as {MACHINE}:8",
        )
    return name, int(count)


def device_hours(question: Question, machine: Machine) -> float | None:
    """Hours of one machine that money and time allow, the lesser of both; None without a bound.

    Time alone bounds nothing where the training is settled: then it says how many machines.
    """
    found = []
    if question.money is None and question.devices is None and question.is_settled:
        return None
    if question.money is not None:
        if machine.price is None:
            raise UserError(
                f"{machine.name} has no price, so that money buys no hours of it",
                where=f"--machine {question.machine}",
                todo="give --hours, or a price in a table of your own: --hardware FILE",
            )
        found.append(question.money / machine.price.usd)
    if question.hours is not None:
        count = question.devices
        if count is None and found:  # as many as the money can pay for all the time
            count = max(1, math.floor(found[0] / question.hours))
        found.append(question.hours * (count or 1))
    return min(found) if found else None


def refuse_too_dear(
    question: Question, machine: Machine, needed: float, allowed: float, what: str
) -> None:
    """Raise UserError if `what` needs more hours of one machine than there are.

    A fiftieth more is none: shapes come in steps.
    """
    if needed <= allowed * 1.02:
        return
    asked = [money(question.money)] if question.money is not None else []
    if question.hours is not None:
        many = f" on {question.devices:,} machines" if question.devices else ""
        asked.append(f"{duration(question.hours)}{many}")
    price = f", {money(needed * machine.price.usd)}" if machine.price is not None else ""
    raise UserError(
        f"{what} takes {short(needed)} hours of {machine.name}{price}: "
        f"{' and '.join(asked)} pay for {short(allowed)}",
        todo="give more, ask for less, or leave out what shall be found",
    )
