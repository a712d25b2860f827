from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.base.errors import UserError
from headway.runs.compare import Comparison
from headway.runs.report_parts import RunReport, distinct

Run = Callable[[str], Path]


def logged(folder: Path) -> dict[str, object]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return next(record for record in map(json.loads, lines) if record["kind"] == "test")


def test_runs_are_compared_by_what_they_logged(trained: Run) -> None:
    folders = [trained("attention"), trained("plain")]
    found = headway.compare(*folders)
    assert isinstance(found, Comparison)
    table = found.table()
    *by_length, every, chrf, parameters, seconds = table.head[1:]
    assert (every, chrf, parameters, seconds) == ("all", "chrF", "parameters", "training, s")
    for row, folder in zip(table.rows, folders, strict=True):
        test, translator = logged(folder), headway.load(folder)
        assert row[0] == folder.name
        expected = [bucket["exact_match"] for bucket in test["by_length"]]  # type: ignore[attr-defined]
        assert list(row[1:-4]) == expected
        assert len(expected) == len(by_length)
        assert list(row[-4:-1]) == [test["exact_match"], test["chrf"], translator.n_parameters]
        assert isinstance(row[-1], float)
        assert row[-1] > 0
    assert folders[0].name in repr(found)


def test_a_comparison_shows_itself(trained: Run, tmp_path: Path) -> None:
    evil = tmp_path / "<b onclick=x>"
    shutil.copytree(trained("attention"), evil)
    found = headway.compare(evil, trained("attention"), trained("attention"))
    page = (
        found._repr_html_() + found.curves()._repr_html_() + found.curves("seconds")._repr_html_()
    )
    assert "<b" not in page
    assert "&lt;b onclick=x&gt;" in page
    tree = ElementTree.fromstring(f"<div>{page}</div>")
    assert len(list(tree.iter("table"))) == 1
    assert page.count("<svg ") == 5
    assert [row[0] for row in found.table().rows] == [evil.name, "attention", "attention (2)"]


def test_a_number_behind_a_name_is_no_other_runs_name() -> None:
    runs = [RunReport(name, [], None, []) for name in ("a", "a", "a (2)", "a")]
    assert [run.name for run in distinct(runs)] == ["a", "a (3)", "a (2)", "a (4)"]


def test_what_cannot_be_compared_is_named(trained: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to compare"):
        headway.compare()
    with pytest.raises(UserError, match="nowhere"):
        headway.compare(tmp_path / "nowhere")
    folder = tmp_path / "young"
    shutil.copytree(trained("plain"), folder)
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["kind"] != "test"]
    (folder / "metrics.jsonl").write_text("".join(kept), encoding="utf-8")
    with pytest.raises(UserError, match="no scores yet"):
        headway.compare(folder)
    other = {"kind": "test", "step": 1, "part": "valid", "nll": 2.0, "bits_per_byte": 3.0}
    (folder / "metrics.jsonl").write_text(
        "".join([*kept, f"{json.dumps(other)}\n"]), encoding="utf-8"
    )
    with pytest.raises(UserError, match="only translators are compared"):
        headway.compare(folder)


def test_a_translator_evaluates_and_shows_itself(trained: Run, toy: Path) -> None:
    translator = headway.load(trained("attention"), device="cpu")
    sources, targets = (
        (toy / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("fr", "en")
    )
    found = translator.evaluate(sources, targets)
    test = logged(trained("attention"))
    assert found.scores.exact_match == test["exact_match"]
    assert found.likelihood.mean == pytest.approx(test["nll"])
    page = found._repr_html_()
    shown = [node.text for node in ElementTree.fromstring(f"<div>{page}</div>").iter("td")]
    assert shown[:3] == ["1–8", str(found.scores.by_length[0].n), shown[2]]
    assert f"{found.likelihood.perplexity:.3f}" in shown
    assert "all" in shown
    told = ElementTree.fromstring(translator._repr_html_())
    facts = dict(zip(*[iter(node.text for node in told.iter("td"))] * 2, strict=True))
    assert facts["parameters"] == f"{translator.n_parameters:,}"
    assert facts["translates"] == "fr → en"
    assert facts["tokeniser"] == "word, 19 and 19 ids"
    assert "score additive" in str(facts["settings"])
    with pytest.raises(UserError, match="a list of texts"):
        translator.evaluate("un chat", ["one cat"])
    with pytest.raises(UserError, match="translations for"):
        translator.evaluate(["un chat"], ["one cat", "two"])
