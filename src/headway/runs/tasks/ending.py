"""The end of a run that is no translator's: its test in the log, its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.base.progress import say
from headway.base.runtime import processor
from headway.checkpoint.run import RunFolder
from headway.runs.planned import plan_rows
from headway.runs.report import write_report
from headway.runs.report_parts import RunReport
from headway.runs.tasks.base import Judgement
from headway.settings.planned import PlannedSettings

PASSAGES = "passages"


def end_run(
    folder: RunFolder,
    found: Judgement | None,
    *,
    part: str,
    facts: Mapping[str, str],
    plan: PlannedSettings | None = None,
) -> None:
    """Add what the test found to the log, say it, write report.html, beside the plan if any."""
    records = [record for record in folder.metrics.read() if record["kind"] != "test"]
    if found is not None:
        step = max((record["step"] for record in records), default=0)
        records.append({"kind": "test", "step": step, "part": part, **found.record})
        say(f"{part}: {found.said}")
    folder.metrics.keep(records)
    told = {"scored": f"{part}: {found.said}"} if found is not None else {}
    report = RunReport(
        name=folder.path.name,
        metrics=records,
        plan=plan_rows(plan, records),
        passages=_passages(records),
        facts={**facts, **told, **_training(records), "machine": processor()},
    )
    write_report(folder.path / "report.html", folder.path.name, [report])


def _passages(records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return next((record[PASSAGES] for record in reversed(records) if record.get(PASSAGES)), [])


def _training(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    last = next((record for record in reversed(records) if record["kind"] == "train"), None)
    if last is None:
        return {}
    tokens, seconds = float(last["tokens"]), float(last["seconds"])
    return {
        "steps": f"{last['step']:,}",
        "training": f"{seconds:,.0f} s",
        "speed": f"{tokens / max(seconds, 1e-9):,.0f} tokens/s",
    }
