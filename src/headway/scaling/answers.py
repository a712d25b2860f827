"""What the laws answer to one question, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.base.errors import UserError
from headway.base.showing import Table
from headway.scaling.laws import Choice, Law, PowerLaw, training_flop
from headway.scaling.published import (
    BESIROGLU,
    CHINCHILLA,
    CHINCHILLA_EXACT,
    CHINCHILLA_TABLE,
)
from headway.scaling.repeated import RepeatedLaw
from headway.scaling.units import short

# The method that answers where just these are given; a law without it has no answer.
_METHODS = {
    frozenset({"flop"}): "optimum",
    frozenset({"flop", "unique"}): "limited",
    frozenset({"params"}): "suits",
    frozenset({"params", "tokens"}): "trained",
    frozenset({"params", "tokens", "unique"}): "trained",
    frozenset({"loss"}): "cheapest",
    frozenset({"loss", "served"}): "served",
    frozenset({"loss", "params"}): "tokens_for",
    frozenset({"loss", "tokens"}): "params_for",
    frozenset({"tokens"}): "",
}


@dataclass(frozen=True)
class Answer:
    """What one law says; None is what it does not say.

    `outside` are places it was not measured, `beyond` by how many times at the most.
    """

    law: str
    params: float | None
    tokens: float | None
    flop: float | None
    loss: float | None
    beyond: float
    outside: tuple[str, ...]


def ask(laws: Sequence[Law], **given: float) -> tuple[list[Answer], list[str]]:
    """The answers of the laws that have one, and why others refuse, to one of these questions.

    `flop` (and `unique` tokens): the best size and tokens. `params`: the tokens that suit it.
    `params` and `tokens`: the loss. `loss`: the cheapest size and tokens (with `served`
    later). `loss` and `params` or `tokens`: the other of these. Raises UserError for another
    question, and where each law refuses this one.
    """
    if frozenset(given) not in _METHODS:
        known = "; ".join(" and ".join(sorted(names)) for names in _METHODS)
        said = " and ".join(sorted(given)) or "nothing"
        raise UserError(f"no law answers what follows from {said}", todo=f"give one of: {known}")
    answers, refusals = [], []
    for law in laws:
        try:
            found = _answer(law, given)
        except UserError as error:
            refusals.append(error)
            continue
        if found is not None:
            answers.append(found)
    if not answers:
        raise refusals[0] if refusals else UserError("none of these laws speaks of that")
    return answers, [str(refusal) for refusal in refusals]


def _answer(law: Law, given: dict[str, float]) -> Answer | None:
    if isinstance(law, PowerLaw):
        if given.keys() == {law.x}:
            place, loss = given[law.x], law.loss(given[law.x])
        elif given.keys() == {"loss"}:
            place, loss = law.needed(given["loss"]), given["loss"]
        else:
            return None
        at = {law.x: place}
        known: dict[str, float | None] = {"params": None, "tokens": None, "flop": None}
        beyond, outside = law.measured.beyond(**at), law.measured.outside(**at)
        return Answer(law.name, **(known | at), loss=loss, beyond=beyond, outside=outside)
    method: Callable[..., Choice] | None = getattr(law, _METHODS[frozenset(given)] or "-", None)
    if method is None or ("unique" in given and not isinstance(law, RepeatedLaw)):
        return None
    choice = method(**given)
    flop = training_flop(choice.params, choice.tokens)
    beyond = law.measured.beyond(params=choice.params, tokens=choice.tokens, flop=flop)
    return Answer(law.name, choice.params, choice.tokens, flop, choice.loss, beyond, choice.outside)


def answers_table(answers: Sequence[Answer]) -> Table:
    """The answers as rows; "beyond": how far outside what was measured."""
    rows = []
    for each in answers:
        ratio = each.tokens / each.params if each.tokens and each.params else None
        numbers = [each.params, each.tokens, ratio, each.flop]
        cells = [short(number) if number else "–" for number in numbers]
        loss = f"{each.loss:.3f}" if each.loss else "–"
        rows.append([each.law, *cells, loss, f"×{each.beyond:.3g}" if each.outside else ""])
    head = ["law", "parameters", "tokens", "tokens/param", "FLOPs", "loss", "beyond"]
    return Table(head, rows)


def laws_table(laws: Sequence[Law]) -> Table:
    """The laws: formula, constants, where they are from and were measured."""
    rows = []
    for law in laws:
        rows += [
            [law.name, law.formula],
            ["", ", ".join(f"{name} = {value:.5g}" for name, value in law.constants.items())],
            ["", f"{law.source}; N counts {law.counted}"],
            ["", f"measured on {_span(law)}"],
        ]
    return Table(["law", ""], rows)


def _span(law: Law) -> str:
    units = (("params", "parameters"), ("tokens", "tokens"), ("flop", "FLOPs"))
    known = [(getattr(law.measured, name), unit) for name, unit in units]
    return ", ".join(f"{short(span[0])} to {short(span[1])} {unit}" for span, unit in known if span)


def laws_record(laws: Sequence[Law]) -> list[dict[str, Any]]:
    """The laws as JSON can hold them."""
    return [
        {
            "law": law.name,
            "formula": law.formula,
            "constants": law.constants,
            "source": law.source,
            "counted": law.counted,
            "measured": vars(law.measured),
        }
        for law in laws
    ]


def chinchilla_rows() -> list[dict[str, float]]:
    """Hoffmann's tables 3 and A3, and the tokens that constants give the same sizes."""
    rows = []
    for row in CHINCHILLA_TABLE:
        printed = {f"approach_{place}": tokens for place, tokens in enumerate(row.tokens, start=1)}
        given = {
            "rounded": CHINCHILLA.suits(row.params).tokens,
            "exact": CHINCHILLA_EXACT.suits(row.params).tokens,
            "besiroglu": BESIROGLU.suits(row.params).tokens,
        }
        rows.append({"params": row.params, **printed, **given})
    return rows


def chinchilla_table() -> Table:
    """The rows of `chinchilla_rows` for people."""
    head = ["parameters", "1", "2", "3", "3 rounded", "3 exact", "2024 fit", "tokens/param"]
    rows = [
        [*map(short, row.values()), f"{row['besiroglu'] / row['params']:.1f}"]
        for row in chinchilla_rows()
    ]
    return Table(head, rows)
