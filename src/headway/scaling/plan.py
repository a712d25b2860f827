"""From any sufficient part of money, time, machines, size, tokens and loss to all the rest."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from typing import Any

from headway.base.errors import UserError
from headway.scaling.costs import (
    MOST_DEVICES,
    Cost,
    Placement,
    Range,
    cost,
    fewest,
    flops_a_token,
    moved_a_flop,
    place,
    repeats,
    serving_flops,
)
from headway.scaling.hardware import Hardware, Machine
from headway.scaling.laws import ParametricLaw
from headway.scaling.own_law import OwnLaw
from headway.scaling.published import BESIROGLU, CHINCHILLA, CHINCHILLA_EXACT, SARDANA
from headway.scaling.question import Question, device_hours, refuse_too_dear
from headway.scaling.shapes import Shape
from headway.scaling.sizes import FOR_SERVING, Size, pick, repeated, takes_all
from headway.scaling.units import duration, short

SAME_RUNS = (CHINCHILLA, CHINCHILLA_EXACT, BESIROGLU, SARDANA)
_ROUNDING = 1e-9  # of hours, which is no reason for one machine more
_PASSES = 4  # that find a size and its speed together
_MOST_HOURS = 30 * 24.0  # a training that is given machines freely lasts no longer


@dataclass(frozen=True)
class Planned:
    """One way to spend it: a size, its tokens, what comes out and what that takes.

    `serving` is what the tokens served later cost beside it; `outside` says where the law was not
    measured.
    """

    name: str
    why: str
    shape: Shape
    tokens: float
    unique_tokens: float
    flops: float
    flops_6nd: float
    loss: Range
    placement: Placement | None
    cost: Cost
    serving: Cost | None
    outside: tuple[str, ...]

    @property
    def epochs(self) -> float:
        """How often the text is read."""
        return self.tokens / self.unique_tokens

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it, each number with what it counts."""
        found = dataclasses.asdict(self)
        found["shape"]["settings"] = self.shape.settings.to_table()
        counted = self.shape.parameters
        found["shape"]["parameters"] = {
            "all": counted.all,
            "without_embeddings": counted.without_embeddings,
            "with_head": counted.with_head,
        }
        return {**found, "epochs": self.epochs, "tokens_per_parameter": self.tokens / counted.all}


@dataclass(frozen=True)
class Plan:
    """The question, what it was answered with, and the choices; the first is the one asked for."""

    question: Question
    machine: Machine
    law: ParametricLaw
    choices: tuple[Planned, ...]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "question": {k: v for k, v in dataclasses.asdict(self.question).items() if v},
            "machine": self.machine.to_table(),
            "law": {
                "name": self.law.name,
                "source": self.law.source,
                "counted": self.law.counted,
                **self.law.constants,
            },
            "assumed": assumptions(self),
            "choices": [choice.to_table() for choice in self.choices],
        }


def make_plan(question: Question, hardware: Hardware, law: ParametricLaw = BESIROGLU) -> Plan:
    """The plan for a question. Raises UserError with a reason for what cannot be."""
    machine = hardware.find(question.machine)
    allowed = device_hours(question, machine)
    moved, again = 0.0, 1.0
    for _ in range(_PASSES):  # its speed may be a matter of what it trains
        rate = hardware.rate(machine, question.utilisation, moved=moved)[1] / again
        sizes = pick(question, law, None if allowed is None else allowed * 3600 * rate)
        devices = _devices(question, sizes, machine, rate)
        before, shape = (moved, again), sizes[0].shape
        if machine.measured is not None and machine.measured.moves is not None:
            moved = moved_a_flop(shape, machine.dtype, machine.device)
        placed = place(shape, machine, devices)
        # once it had to recompute that stays paid for, or the size would go up and down for ever
        again = max(again, repeats(shape, recomputes=placed is not None and placed.recomputes))
        if (moved, again) == before:
            break
    if allowed is not None:
        sizes = [_paid(size, question, machine, devices, hardware, allowed) for size in sizes]
    choices: list[Planned] = []
    for size in sizes:
        planned = _planned(question, size, machine, devices, hardware, law)
        if not choices:
            refuse_misfit(planned, machine)
            if allowed is not None and size.asked:
                needed = planned.cost.device_hours
                refuse_too_dear(question, machine, needed, allowed, "this training")
        choices.append(planned)
    return Plan(question, machine, law, tuple(choices))


def _devices(question: Question, sizes: list[Size], machine: Machine, rate: float) -> int:
    """How many machines: those asked for, those that the time takes, or as few as will do."""
    if question.devices is not None:
        return question.devices
    first = sizes[0]
    hours = first.tokens * flops_a_token(first.shape) / rate / 3600
    if question.hours is not None:
        devices = max(1, math.ceil(hours / question.hours * (1 - _ROUNDING)))
        if devices > MOST_DEVICES:
            raise UserError(
                f"in {duration(question.hours)} this takes {short(devices)} machines, more than "
                f"{MOST_DEVICES:,}",
                where="--hours",
                todo="give more time, or ask for less",
            )
        return max(devices, fewest(first.shape, machine) or 1)  # it has to fit as well
    devices = fewest(first.shape, machine) or MOST_DEVICES
    while hours / devices > _MOST_HOURS and devices < MOST_DEVICES:
        devices *= 2
    return devices


def _paid(
    size: Size,
    question: Question,
    machine: Machine,
    devices: int,
    hardware: Hardware,
    allowed: float,
) -> Size:
    """A choice with the tokens that so many hours of one machine pay for at its own speed.

    They were those of the first choice's speed; smaller models move more bytes a FLOP, and may
    recompute less. What was asked for stays. Raises UserError where serving takes it all.
    """
    if question.loss is not None or (size.asked and question.tokens is not None):
        return size
    shape, placed = size.shape, place(size.shape, machine, devices)
    moved = moved_a_flop(shape, machine.dtype, machine.device)
    flops = allowed * 3600 * hardware.rate(machine, question.utilisation, moved=moved)[1]
    if size.name == FOR_SERVING and question.serve_tokens is not None:
        flops -= question.serve_tokens * serving_flops(shape)
        if flops <= 0:
            raise takes_all(question.serve_tokens)
    again = repeats(shape, recomputes=placed is not None and placed.recomputes)
    return replace(size, tokens=flops / again / flops_a_token(shape))


def refuse_misfit(planned: Planned, machine: Machine) -> None:
    """Raise UserError if a training fits in no way on the machines it has."""
    if planned.placement is not None:
        return
    least = fewest(planned.shape, machine)
    many = "one" if planned.cost.devices == 1 else f"{planned.cost.devices:,}"
    raise UserError(
        f"{short(planned.shape.parameters.all)} parameters do not fit on {many} {machine.name}, "
        "with checkpointing and everything sharded",
        where="--params" if planned.name == "as asked" else "--machine",
        todo=f"it takes {least:,} of them at least" if least else "no number of them holds it",
    )


def _planned(
    question: Question,
    size: Size,
    machine: Machine,
    devices: int,
    hardware: Hardware,
    law: ParametricLaw,
) -> Planned:
    a_token = flops_a_token(size.shape)
    flops = size.tokens * a_token
    share = question.utilisation
    serving = None
    if question.serve_tokens is not None:
        later = question.serve_tokens * serving_flops(size.shape)
        serving = cost(later, question.serve_tokens, size.shape, machine, devices, hardware, share)
    params = float(size.shape.parameters.all)
    placed = place(size.shape, machine, devices)
    recomputes = placed is not None and placed.recomputes
    return Planned(
        size.name,
        size.why,
        size.shape,
        size.tokens,
        size.unique,
        flops,
        6 * params * size.tokens,
        expected_loss(law, params, size.tokens, size.unique),
        placed,
        cost(
            *(flops, size.tokens, size.shape, machine, devices, hardware, share),
            recomputes=recomputes,
        ),
        serving,
        law.choice(params, size.tokens).outside,
    )


def expected_loss(law: ParametricLaw, params: float, tokens: float, unique: float) -> Range:
    """The loss by a law, between what the laws fitted to the same runs say.

    Of a law of one's own it is between what its runs leave open.
    """
    again = unique if unique < tokens else None
    likely = repeated(law).loss(params, tokens, again)
    if isinstance(law, OwnLaw):
        low, high = law.spread(likely)
        return Range(low, likely, high)
    others = SAME_RUNS if law in SAME_RUNS else ()
    found = [likely, *(repeated(other).loss(params, tokens, again) for other in others)]
    return Range(min(found), likely, max(found))


def assumptions(plan: Plan) -> list[str]:
    """What a plan rests on, a sentence each."""
    question, machine = plan.question, plan.machine
    rate = "stated share of the peak" if question.utilisation else "range of public trainings"
    if machine.measured is not None and question.utilisation is None:
        rate = "rate measured on this machine"
    spread = "what the laws fitted to the same runs say between them"
    if isinstance(plan.law, OwnLaw):
        spread = "what 95 % of runs lie within, by how far those of the fit are from it"
    elif plan.law not in SAME_RUNS:
        spread = "not known"
    found = [
        f"Loss: law '{plan.law.name}' ({plan.law.source}), in nats a token of its own text and "
        f"tokeniser; its range is {spread}.",
        f"Speed: {rate}, {machine.dtype}; FLOPs are counted an operation, attention in full.",
        f"Texts of {plan.choices[0].shape.length:,} tokens; AdamW with float32 weights.",
    ]
    if any(choice.placement and not choice.placement.judged for choice in plan.choices):
        found.append(
            "Judging elsewhere: headway train keeps the whole model in float32 on the first device "
            "to judge it, which is too small for that; no recipe is written."
        )
    if machine.price is not None:
        price = machine.price
        found.append(f"Price: ${price.usd:g} an hour ({price.source}, {price.date}).")
    if question.serve_tokens is not None:
        found.append("Serving at training's utilisation: batches that are large enough.")
    if machine.power is not None:
        found.append("Energy: the boards' rated power alone, without hosts and cooling.")
    return found + ([machine.note] if machine.note else [])
