from __future__ import annotations

import io
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headway.evaluate.translation import LengthScores, TranslationScores
from headway.lens.alignment import Alignment
from headway.runs.report import RunReport, scores_table, write_report
from headway.runs.report_parts import curve, differences

NAN = float("nan")
VOID = {"meta", "link", "br", "img", "input", "hr"}
EVIL = "<script>alert('1')</script>"


class Page(HTMLParser):
    """Elements, attributes and text of a page; complains of tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "data")]
        self.links += [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def metrics(n: int, *, smoothed: bool = True) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for step in range(1, n + 1):
        nll = 5.0 / step
        objective = nll + 0.3 if smoothed else nll
        train = {"step": step, "seconds": 0.5 * step, "objective": objective, "nll": nll}
        records.append({"kind": "train", **train})
        if step % 10 == 0:
            records.append({"kind": "valid", "step": step, "nll": nll, "exact_match": 10.0})
    return records


def scores(*exact: float, n: int = 100) -> TranslationScores:
    ends = [(1, 8), (9, 16), (17, None)]
    parts = [
        LengthScores(low, high, n, value, value + 1, value + 2)
        for (low, high), value in zip(ends, exact, strict=False)
    ]
    return TranslationScores(n * len(parts), 61.5, 71.5, 51.5, "sig|bleu", "sig|chrf", parts)


def full(name: str, *exact: float) -> RunReport:
    weights = [[0.9, 0.1], [0.2, 0.8]]
    return RunReport(
        name,
        metrics(40),
        scores(*exact),
        [{"source": "la source", "reference": "the spring", "translation": "the source"}],
        [Alignment(["la", "source"], ["the", "spring"], weights, "a picture")],
        {"parameters": "1,234", "dtype": "float32"},
    )


def page(tmp_path: Path, title: str, runs: list[RunReport], **more: str) -> Page:
    write_report(tmp_path / "report.html", title, runs, **more)
    return Page((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_everything_is_on_the_page(tmp_path: Path) -> None:
    runs = [full("rnn", 70.0, 30.0, 1.25), full("transformer", 90.0, 80.0, 60.0)]
    found = page(tmp_path, "A title", runs, about="What was done.")
    text = found.text
    for wanted in ("A title", "What was done.", "sig|bleu", "sig|chrf", "1,234", "a picture"):
        assert wanted in text
    for wanted in ("Scores by source length", "Training", "Samples", "Alignments", "Facts"):
        assert wanted in text
    assert "On sources of 17 words or more, transformer gets 60.0 % exactly right" in text
    assert "rnn 1.2 %" in text or "rnn 1.3 %" in text
    assert "BLEU over all: rnn 61.5" in text
    assert "Training NLL" in text
    assert "Training objective" in text


def test_the_page_needs_nothing_else_and_runs_nothing(tmp_path: Path) -> None:
    found = page(tmp_path, "t", [full("a", 1.0, 2.0, 3.0), full("b", 1.0, 2.0, 3.0)])
    assert found.links == []
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", raw))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in raw
    assert "url(" not in raw
    assert "prefers-color-scheme: dark" in raw


def test_every_text_is_escaped(tmp_path: Path) -> None:
    run = RunReport(
        EVIL,
        metrics(3),
        scores(1.0, 2.0),
        [{"source": EVIL, "reference": f"a {EVIL}", "translation": f"b {EVIL}"}],
        [Alignment([EVIL, "<s>"], ["</svg>"], [[0.5, 0.5]], EVIL)],
        {EVIL: EVIL},
    )
    found = page(tmp_path, EVIL, [run, run], about=EVIL)
    assert "script" not in found.tags
    assert found.text.count(EVIL) >= 8
    assert "<s>" in found.text


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [RunReport("new")],
        [RunReport("new"), full("old", 1.0, 2.0, 3.0)],
        [RunReport("scored", scores=scores(1.0))],
        [RunReport("trained", metrics(1))],
        [RunReport("nan", [{"kind": "train", "step": 1, "nll": NAN, "objective": NAN}])],
        [RunReport("bare", [{"kind": "train", "step": 1}, {"kind": "resume", "step": 1}])],
        [RunReport("silent", samples=[{"source": "", "reference": "x", "translation": ""}])],
    ],
)
def test_parts_that_are_missing_leave_a_page(tmp_path: Path, runs: list[RunReport]) -> None:
    found = page(tmp_path, "A title", runs)
    assert "A title" in found.text
    for run in runs:
        assert run.name in found.text
    if not any(run.scores for run in runs):
        assert "Scores by source length" not in found.text


def test_a_run_that_has_just_begun_says_that_it_has_no_records(tmp_path: Path) -> None:
    assert "No records yet" in page(tmp_path, "t", [RunReport("new")]).text
    assert "no run to show" in page(tmp_path, "t", []).text


def test_best_of_each_row_is_marked_and_ties_twice(tmp_path: Path) -> None:
    runs = [full("a", 70.0, 30.0, 5.0), full("b", 60.0, 30.0, 6.0)]
    write_report(tmp_path / "r.html", "t", runs)
    raw = (tmp_path / "r.html").read_text(encoding="utf-8")
    best = re.findall(r'class="number[^"]* best">([\d.]+)', raw)
    by_length = "70.0 71.0 30.0 30.0 31.0 31.0 6.0 7.0"
    assert " ".join(best) == f"{by_length} 51.5 51.5 71.5 71.5"
    write_report(tmp_path / "one.html", "t", runs[:1])
    assert ' best">' not in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_runs_scored_on_other_numbers_of_sentences_are_not_compared_silently(
    tmp_path: Path,
) -> None:
    runs = [RunReport("a", scores=scores(1.0, 2.0)), RunReport("b", scores=scores(3.0, n=7))]
    text = page(tmp_path, "t", runs).text
    assert "cannot be compared" in text
    assert "7–100" in text
    assert "cannot be compared" not in page(tmp_path, "t", runs[:1]).text


def test_runs_of_one_name_stay_apart(tmp_path: Path) -> None:
    runs = [full("rnn", 70.0, 30.0, 1.0), full("rnn", 90.0, 80.0, 60.0)]
    assert "rnn (2) gets 60.0 % exactly right and rnn 1.0 %" in page(tmp_path, "t", runs).text


def test_an_objective_that_is_the_nll_is_not_shown_twice(tmp_path: Path) -> None:
    text = page(tmp_path, "t", [RunReport("a", metrics(5, smoothed=False))]).text
    assert "Training NLL" in text
    assert "Training objective" not in text


def test_the_page_stays_small(tmp_path: Path) -> None:
    n = 300
    words = [f"word{i}" for i in range(n)]
    uniform = [[0.0101] * 99 + [0.0] * (n - 99)] * n
    alignments = [Alignment(words, words, uniform, "large")] * 6
    long = [
        {"source": f"{i} " + "mot " * 5000, "reference": "word " * 5000, "translation": "x " * 9000}
        for i in range(50)
    ]
    run = RunReport("a", metrics(3000), scores(1.0), long, alignments)
    text = page(tmp_path, "t", [run, run, run]).text
    assert (tmp_path / "report.html").stat().st_size < 500_000
    assert "20 of 50 are shown" in text
    assert "left out" in text


def test_differences_give_the_translation_back_and_mark_what_differs() -> None:
    made, wanted = "the red  house, here", "the blue house, over here"
    pieces = list(differences(made, wanted))
    assert "".join(text for text, mark in pieces if mark != "missing").split() == made.split()
    assert [text for text, mark in pieces if mark == "wrong"] == ["red"]
    assert [text for text, mark in pieces if mark == "missing"] == ["over"]
    assert list(differences("same  text", "same text")) == [("same  text", "")]
    assert list(differences("", "all of it")) == [("all of it", "missing")]
    assert list(differences("", "")) == []
    assert ("天", "wrong") in list(differences("今天好", "今日好"))


def test_differences_of_a_model_that_repeats_itself_take_no_time() -> None:
    started = time.process_time()
    for made, wanted in (("x " * 600, "word " * 240), ("word " * 240, "a word " * 170)):
        assert list(differences(made, wanted))
    assert time.process_time() - started < 5.0  # minutes if white space is compared


def test_curve_takes_each_clock_and_the_last_record_of_a_step() -> None:
    records = [
        {"kind": "train", "step": 10, "seconds": 2.0, "nll": 3.0},
        {"kind": "valid", "step": 12, "seconds": 2.5, "nll": 2.5},
        {"kind": "valid", "step": 13, "seconds": 2.5, "nll": 2.4},
        {"kind": "train", "step": 10, "seconds": 2.0, "nll": 1.0},
    ]
    assert curve(records, "valid", "seconds", "nll") == [(2.5, 2.5), (2.5, 2.4)]
    assert curve(records, "valid", "step", "nll") == [(12.0, 2.5), (13.0, 2.4)]
    assert curve(records, "train", "step", "nll") == [(10.0, 1.0)]


def test_curve_of_an_old_log_puts_a_validation_between_the_clocks_around_it() -> None:
    """It had none of its own; evaluations of one log window fell on one time, and one was left."""
    records: list[dict[str, Any]] = [
        {"kind": "valid", "step": 5, "nll": 4.0},
        {"kind": "train", "step": 10, "seconds": 2.0, "nll": 3.0},
        {"kind": "valid", "step": 12, "nll": 2.5},
        {"kind": "valid", "step": 15, "nll": 2.0},
        {"kind": "train", "step": 20, "seconds": 4.0, "nll": 1.0},
    ]
    found = curve(records, "valid", "seconds", "nll")
    assert found == [(1.0, 4.0), (pytest.approx(2.4), 2.5), (3.0, 2.0)]
    assert curve(records[:1], "valid", "seconds", "nll") == []


def test_samples_come_from_the_last_validation_if_not_given(tmp_path: Path) -> None:
    old = {"source": "s", "reference": "r", "translation": "early"}
    new = {"source": "s", "reference": "r", "translation": "late"}
    records: list[dict[str, Any]] = [
        {"kind": "valid", "step": i, "samples": [x]} for i, x in enumerate((old, new))
    ]
    text = page(tmp_path, "t", [RunReport("a", records)]).text
    assert "late" in text
    assert "early" not in text


def test_table_for_the_terminal_has_every_number() -> None:
    runs = [full("rnn[b]", 70.0, 30.0, 5.0), RunReport("new"), full("c", 60.0, 30.0, 6.0)]
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(scores_table(runs))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(re.findall(r"[^\s│┃|]+", x)) for x in console.file.getvalue().splitlines()]
    assert "1–8 100 70.0 71.0 60.0 61.0" in lines
    assert "17+ 100 5.0 6.0 6.0 7.0" in lines
    assert "all 300 51.5 71.5 51.5 71.5" in lines
    assert any("rnn[b]" in line for line in lines)
