"""What a report shows, as plain values: the template only lays it out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from headway.base.showing import Svg
from headway.evaluate.translation import LengthScores, TranslationScores, range_label
from headway.lens.alignment import Alignment
from headway.lens.plots import alignment_svg, bars_svg, curves_svg

MOST_SAMPLES = 20
MOST_LETTERS = 1200  # of one text in a sample
MOST_ALIGNMENT_BYTES = 250_000  # of all the pictures of a page together

Curve = list[tuple[float, float]]
# A word, a sign, or a letter of a script without spaces, with the white space before it.
_PIECE = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff]|\w+(?:[’'-]\w+)*|[^\w\s]|$)")


@dataclass(frozen=True)
class RunReport:
    """All that a report says of one run.

    `metrics` are the records of metrics.jsonl; `samples` have source, reference and translation;
    `passages` are texts under the names of what they are; `plan` has rows of what was planned, what
    happened and their ratio; `facts` are shown as they are
    (parameters, seconds, tokens/s, device, dtype ...).
    """

    name: str
    metrics: list[dict[str, Any]] = field(default_factory=list)
    scores: TranslationScores | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    alignments: list[Alignment] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    passages: list[dict[str, str]] = field(default_factory=list)
    plan: list[tuple[str, str, str, str]] = field(default_factory=list)


def distinct(runs: Sequence[RunReport]) -> list[RunReport]:
    """The runs, with a number behind a name that came before."""
    own, used, renamed = {run.name for run in runs}, set[str](), []
    for run in runs:
        further = (f"{run.name} ({n})" for n in count(2))
        free = (name for name in further if name not in own | used)
        name = next(free) if run.name in used else run.name
        used.add(name)
        renamed.append(replace(run, name=name))
    return renamed


# -- scores by length -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One range of source lengths (or all): a value a run for each metric; None: not scored."""

    label: str
    n: str
    exact_match: list[float | None]
    chrf: list[float | None]

    def best(self, metric: str) -> float | None:
        """The value to mark, as it is printed; None where there is nothing to compare."""
        values = [round(value, 1) for value in getattr(self, metric) if value is not None]
        return max(values) if len(values) > 1 else None


def scored(runs: Sequence[RunReport]) -> list[tuple[str, TranslationScores]]:
    """The names and scores of the runs that have scores."""
    return [(run.name, run.scores) for run in runs if run.scores is not None]


def score_rows(runs: Sequence[RunReport]) -> list[Row]:
    """A row a range of source lengths over all scored runs, shortest first, then all of them."""
    table = scored(runs)
    if not table:
        return []
    by_run = [{(b.low, b.high): b for b in scores.by_length} for _, scores in table]
    ranges = sorted({key for buckets in by_run for key in buckets}, key=lambda key: key[0])
    rows = [_row(range_label(*key), [buckets.get(key) for buckets in by_run]) for key in ranges]
    return [*rows, _row("all", [scores for _, scores in table])]


def _row(label: str, found: Sequence[LengthScores | TranslationScores | None]) -> Row:
    counts = sorted({part.n for part in found if part})
    return Row(
        label,
        "–".join(f"{count:,}" for count in {counts[0]: 0, counts[-1]: 0}),
        [part.exact_match if part else None for part in found],
        [part.chrf if part else None for part in found],
    )


def length_chart(runs: Sequence[RunReport], rows: Sequence[Row]) -> Svg:
    """Exact match by source length as bars; runs without scores keep their colour."""
    names = [name for name, _ in scored(runs)]
    lengths = [row for row in rows if row.label != "all"]
    column = {name: [row.exact_match[i] for row in lengths] for i, name in enumerate(names)}
    nothing: list[float | None] = [None] * len(lengths)
    series = {run.name: column.get(run.name, nothing) for run in runs}
    return bars_svg([f"{row.label} words" for row in lengths], series, y="Exact match, %")


def finding(runs: Sequence[RunReport], rows: Sequence[Row]) -> str:
    """One sentence on the longest sources: the best run and the worst, in percent."""
    names = [name for name, _ in scored(runs)]
    whole = [row for row in rows if None not in row.exact_match and row.label != "all"]
    if len(names) < 2 or not whole:
        return ""
    values = [value for value in whole[-1].exact_match if value is not None]
    ranked = sorted(zip(values, names, strict=True), reverse=True)
    (best, first), (worst, last) = ranked[0], ranked[-1]
    words = whole[-1].label.replace("+", " words or more").replace("–", " to ")
    words += "" if "more" in words else " words"
    return (
        f"On sources of {words}, {first} gets {best:.1f} % exactly right and {last} {worst:.1f} %."
    )


# -- curves ---------------------------------------------------------------------------------------


def charts(runs: Sequence[RunReport]) -> list[Svg]:
    """The training curves for which there are records, as SVG, by step and by time."""
    wanted = (
        ("train", "nll", "Training NLL, nats per token"),
        ("train", "objective", "Training objective"),
        ("valid", "nll", "Validation NLL, nats per token"),
        ("valid", "bits_per_byte", "Validation, bits per byte"),
        ("valid", "exact_match", "Validation exact match, %"),
        ("valid", "score", "Validation score, %"),
    )
    found = []
    for kind, key, y in wanted:
        if key == "objective" and not _smoothed(runs):
            continue
        for x in ("step", "seconds"):
            series = {run.name: curve(run.metrics, kind, x, key) for run in runs}
            if any(series.values()):
                found.append(curves_svg(series, x=x, y=y, log_y=not y.endswith("%")))
    return found


def curve(metrics: Sequence[dict[str, Any]], kind: str, x: str, y: str) -> Curve:
    """Points (x, y) of the records of a kind; the last one counts where a step comes twice.

    Validation records of old logs have no clock of their own: it is interpolated by their step
    between the training records around them.
    """
    points: dict[float, tuple[float, float]] = {}  # by step: several may be of one time
    steps, clock = _clock(metrics)
    for record in metrics:
        if record.get("kind") != kind or record.get("step") is None or record.get(y) is None:
            continue
        place = record.get(x)
        if place is None and x == "seconds" and steps:
            place = np.interp(record["step"], steps, clock)
        if place is not None:
            points[float(record["step"])] = float(place), float(record[y])
    return [points[step] for step in sorted(points)]


def _clock(metrics: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Steps and seconds of training so far, in their order, from the beginning on."""
    told = {
        float(record["step"]): float(record["seconds"])
        for record in metrics
        if record.get("kind") == "train" and {"step", "seconds"} <= record.keys()
    }
    known = sorted(({0.0: 0.0} | told).items()) if told else []
    return [step for step, _ in known], [seconds for _, seconds in known]


def _smoothed(runs: Sequence[RunReport]) -> bool:
    """Whether what was minimised is not the plain NLL anywhere; else its curve says nothing."""
    records = [record for run in runs for record in run.metrics if record.get("kind") == "train"]
    return any(record.get("objective") != record.get("nll") for record in records)


# -- samples --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """A source and its reference with what each run made of it, in pieces (text, mark)."""

    source: str
    reference: str
    translations: list[tuple[str, int, list[tuple[str, str]], bool]]  # run, number, pieces, exact


def samples(runs: Sequence[RunReport]) -> tuple[list[Sample], int]:
    """The samples to show, and how many there were."""
    made: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for place, run in enumerate(runs):
        for sample in run.samples or _last_samples(run.metrics):
            pair = str(sample["source"]), str(sample["reference"])
            made.setdefault(pair, []).append((place, str(sample["translation"])))
    shown = list(made.items())[:MOST_SAMPLES]
    return [
        Sample(
            _cut(source),
            _cut(reference),
            [
                (runs[i].name, i, list(differences(_cut(text), _cut(reference))), text == reference)
                for i, text in texts
            ],
        )
        for (source, reference), texts in shown
    ], len(made)


def _last_samples(metrics: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples of the last validation that had some."""
    return next((r["samples"] for r in reversed(metrics) if r.get("samples")), [])


def differences(translation: str, reference: str) -> Iterator[tuple[str, str]]:
    """The translation in pieces, each marked '', 'wrong' or 'missing' (in the reference only).

    White space is not compared: as a piece like any other it would match everywhere, and a model
    that repeats itself would keep difflib busy for minutes.
    """
    made, wanted = _PIECE.findall(translation), _PIECE.findall(reference)
    words = [[piece.strip() for piece in pieces] for pieces in (made, wanted)]
    for how, a, b, c, d in difflib.SequenceMatcher(
        None, words[0], words[1], autojunk=False
    ).get_opcodes():
        text = "".join(wanted[c:d] if how == "insert" else made[a:b])
        bare = text.strip()
        if not bare:
            continue
        before = text[: len(text) - len(text.lstrip())]
        if before:
            yield before, ""
        yield bare, {"equal": "", "insert": "missing"}.get(how, "wrong")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


# -- pictures and facts ---------------------------------------------------------------------------


def pictures(runs: Sequence[RunReport]) -> tuple[list[tuple[str, str, Svg]], int]:
    """(run, title, SVG) of the alignments that fit into a page, and how many did not."""
    shown, left_out, room = [], 0, MOST_ALIGNMENT_BYTES
    for run in runs:
        for alignment in run.alignments:
            svg = alignment_svg(alignment)
            if len(svg) <= room:
                shown.append((run.name, alignment.title, svg))
                room -= len(svg)
            else:
                left_out += 1
    return shown, left_out


def fact_rows(runs: Sequence[RunReport]) -> list[tuple[str, list[str]]]:
    """A row a fact with a value a run ('–' where it has none), in the order they came in."""
    keys = list(dict.fromkeys(key for run in runs for key in run.facts))
    rows = [(key, [run.facts.get(key, "–") for run in runs]) for key in keys]
    resumed = [sum(r.get("kind") == "resume" for r in run.metrics) for run in runs]
    if any(resumed):
        rows.append(("resumed", [f"{times} ×" if times else "–" for times in resumed]))
    return rows
