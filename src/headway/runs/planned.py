"""The plan of a run beside what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.settings.planned import PlannedSettings

Row = tuple[str, str, str, str]  # what, planned, what happened, its ratio


def plan_rows(plan: PlannedSettings | None, records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Speed, time, tokens, memory and loss, as far as the records tell them; none without a plan.

    The loss is that of the test part, else of the last validation.
    """
    trained = [record for record in records if record["kind"] == "train"]
    if plan is None or not trained:
        return []
    tokens, seconds = float(trained[-1]["tokens"]), float(trained[-1]["seconds"])
    judged = [each for each in records if each["kind"] in ("valid", "test") and "nll" in each]
    held = [each for each in records if each["kind"] == "memory"]
    found = [
        _row("tokens a second", plan.tokens_per_second, tokens / max(seconds, 1e-9), "{:,.0f}"),
        _row("hours of training", plan.hours, seconds / 3600, "{:,.3g}"),
        _row("tokens", (plan.tokens,), tokens, "{:,.0f}"),
    ]
    if plan.memory is not None and held:
        found.append(_row("bytes of tensors", (plan.memory,), held[-1]["bytes"], "{:,.0f}"))
    if judged:
        last = next((each for each in judged if each["kind"] == "test"), judged[-1])
        found.append(_row("loss, nats a token", plan.loss, last["nll"], "{:.3f}"))
    return found


def _row(what: str, planned: Sequence[float], actual: float, form: str) -> Row:
    say: Callable[[float], str] = form.format
    low, likely, high = planned if len(planned) == 3 else (planned[0],) * 3
    said = say(likely) if low == high else f"{say(likely)} ({say(low)} to {say(high)})"
    return what, said, say(actual), f"{actual / likely:.2f}" if likely else "–"
