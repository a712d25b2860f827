"""Tables as they are in the wild: without heads, with stray quotes, with broken rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from headway.base.errors import UserError
from headway.data.objects import hub_rows
from headway.data.rows import Wanted

Read = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path, read: Read) -> Read:
    """What is read of a file of that name and text."""

    def run(name: str, text: str, **part: Any) -> Any:
        (tmp_path / name).write_bytes(text.encode("utf-8"))
        return read(**{"file": str(tmp_path / name), "source": 0, "target": 1, **part})

    return run


def test_the_sentence_pairs_that_courses_hand_out(table: Read) -> None:
    """No head, a third column with the licence, quotes that nobody closes."""
    text = (
        "Go.\tVa !\tCC-BY 2.0 #1\n"
        '"Hi.\t"Salut.\tCC-BY "2.0" #2\n'
        'She said "no".\tElle a dit « non ».\tCC-BY 2.0 #3\n'
        "Run!\tCours\u202f!\tCC-BY 2.0 #4\n"
    )
    found = table("fra.txt", text, format="tsv", source=1, target=0)
    assert found.pairs == [
        ("Va !", "Go."),
        ('"Salut.', '"Hi.'),
        ("Elle a dit « non ».", 'She said "no".'),
        ("Cours\u202f!", "Run!"),
    ]
    assert found.notices == ()


def test_quoted_cells_hold_separators_quotes_and_line_breaks(table: Read) -> None:
    text = 'fr,en\r\n"a, ""b""","A\r\nB"\r\nplain "as is",C\r\nd\re,D\r\n'
    pairs = [('a, "b"', "A B"), ('plain "as is"', "C"), ("d\re", "D")]
    found = table("x.csv", text, source="fr", target="en")
    assert found.pairs == pairs
    assert found.lines["line breaks inside, made spaces"] == [2]
    tabs = table("x.tsv", text.replace(",", "\t"), source="fr", target="en", quoting="csv")
    assert tabs.pairs == [(s.replace(",", "\t"), t) for s, t in pairs]
    semicolons = table("y.csv", 'fr;en\n"a;b";c,d\n', source="fr", target="en", separator=";")
    assert semicolons.pairs == [("a;b", "c,d")]
    plain = table("z.csv", 'a,"A\nb",B\n', quoting="none")
    assert plain.pairs == [("a", '"A'), ('b"', "B")]


@pytest.mark.parametrize(
    "broken",
    [
        '"never closed,X',
        '"closed" early,X',
        '"x,"y"z',
        f'"{"long" * 40_000},X',  # longer than the csv module reads by itself
    ],
)
def test_a_broken_quote_costs_its_own_row_only(broken: str, table: Read) -> None:
    rows = [f'mot {n},"word {n}"' for n in range(300)]
    for place in (0, 150, 299):
        text = "\n".join([*rows[:place], broken, *rows[place:]]) + "\n"
        found = table("x.csv", text)
        assert found.pairs == [(f"mot {n}", f"word {n}") for n in range(300)]
        assert found.lines == {"broken quotes": [place + 1]}


def test_a_long_cell_is_no_broken_quote(table: Read) -> None:
    long = "mot " * 50_000
    for text in (f"{long},word\n", f'"{long}","word"\n'):
        assert table("x.csv", text).pairs == [(long, "word")]


@pytest.mark.parametrize("name", ["x.tsv", "x.csv"])
def test_rows_of_another_width_are_bad(name: str, table: Read) -> None:
    separator = "\t" if name == "x.tsv" else ","
    rows = [["a", "A", "x"]] * 60
    rows[10], rows[20], rows[30] = ["b", "B"], ["c", "C", "x", "y"], ["d"]
    found = table(name, "".join(separator.join(row) + "\n" for row in rows))
    assert found.pairs == [("a", "A")] * 57
    assert found.lines["a wrong number of fields"] == [11, 21, 31]
    assert found.notices == ("3 rows left out: a wrong number of fields (lines 11, 21, 31)",)


def test_json_rows(table: Read) -> None:
    good = [{"translation": {"fr": f"m{n}", "en": f"w{n}"}, "id": n} for n in range(100)]
    lines = [json.dumps(row) for row in good]
    lines[10] = '{"translation": {"fr": "a"'
    lines[20] = '{"translation": {"fr": "a"}}'
    lines[30] = '{"translation": {"fr": "a", "en": null}}'
    lines[40] = '{"translation": {"fr": 3, "en": "A"}}'
    lines[50] = r'{"translation": {"fr": "\ud800", "en": "half a character"}}'
    found = table("x.jsonl", "\n".join(lines), source="translation.fr", target="translation.en")
    assert len(found.pairs) == 95
    assert found.pairs[11] == ("m12", "w12")
    assert found.lines == {
        "invalid JSON": [11],
        "a missing key 'translation.en'": [21],
        "a value that is no text": [31, 41, 51],
    }
    assert table("y.jsonl", '{"a.b": "x", "c": "y"}', source="a.b", target="c").pairs
    assert table("z.jsonl", '["x", 1, "y"]\n', source=2, target=0).pairs == [("y", "x")]
    for text in ("3\n", '"translation"\n', "null\n", "[" * 100_000 + "\n", "{}\n"):
        with pytest.raises(UserError, match="1 of 1 rows cannot be used"):
            table("w.jsonl", text, source="translation.fr", target="translation.en")


def test_some_bad_rows_are_left_out_and_many_are_refused(table: Read) -> None:
    def text(bad: int) -> str:
        return "a\tA\n" * (100 - bad) + "broken\n" * bad

    assert len(table("x.tsv", text(5)).pairs) == 95
    with pytest.raises(UserError) as caught:
        table("x.tsv", text(6))
    assert caught.value.what == (
        "6 of 100 rows cannot be used, more than 5%: "
        "6 with a wrong number of fields (lines 95, 96, 97, 98, 99)"
    )
    assert str(caught.value.todo).endswith("with data.train.bad = 'drop'")
    assert len(table("x.tsv", text(60), bad="drop").pairs) == 40
    with pytest.raises(UserError, match="1 of 100 rows cannot be used"):
        table("x.tsv", text(1), bad="refuse")
    assert len(table("x.tsv", text(0), bad="refuse").pairs) == 100


def test_the_format_is_told_by_the_suffix_or_must_be_set(table: Read) -> None:
    assert table("x.TSV", "a\tA\n").pairs == [("a", "A")]
    assert table("x.ndjson", '["a", "A"]\n').pairs == [("a", "A")]
    with pytest.raises(UserError, match=r"data.train.format: the suffix '.txt' of") as caught:
        table("x.txt", "a\tA\n")
    assert caught.value.todo == "set it to 'tsv', 'csv', 'jsonl' or 'parquet'"


def test_the_suffix_is_that_of_the_variable_s_file(
    table: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PAIRS", str(tmp_path / "x.tsv"))
    assert table("x.tsv", "a\tA\n", file="${MY_PAIRS}").pairs == [("a", "A")]
    monkeypatch.delenv("MY_PAIRS")
    with pytest.raises(UserError, match="the environment variable 'MY_PAIRS'"):
        table("x.tsv", "a\tA\n", file="${MY_PAIRS}")


def test_a_table_of_one_column_may_have_another_separator(table: Read) -> None:
    told = (
        "there is no column 'fr', and only one: 'fr;en'; check the name, and data.train.separator"
    )
    with pytest.raises(UserError, match=told):
        table("x.csv", "fr;en\nun;one\n", source="fr", target="en")


def test_a_file_that_is_one_line_is_not_printed(table: Read) -> None:
    text = "fr\ten\r" + "un chien\ta dog\r" * 9_999
    with pytest.raises(UserError, match=r"unknown column 'en'; .*known: .*chien") as caught:
        table("x.tsv", text, source="fr", target="en")
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


def test_a_head_that_cannot_be_read_is_told(table: Read, tmp_path: Path, read: Read) -> None:
    (tmp_path / "x.tsv").write_bytes(b"fr\xe9\ten\na\tA\n")
    with pytest.raises(UserError, match="the line with the names of the columns"):
        read(file=str(tmp_path / "x.tsv"), source="fr", target="en", errors="skip")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_data_set_of_the_hub(
    streaming: bool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    class DataSet(list[Any]):
        column_names = None if streaming else ["translation", "id"]

    def load_dataset(name: str, config: str | None, **options: Any) -> DataSet:
        asked.append((name, config, options))
        rows = [{"translation": {"fr": f"m{n}", "en": f"w{n}"}} for n in range(99)]
        return DataSet([*rows, {"translation": {"fr": None, "en": "x"}}])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    part = {"hub": "some/pairs", "source": "translation.fr", "target": "translation.en"}
    found = read(**part, config="fr-en", streaming=streaming)
    assert found.pairs == [(f"m{n}", f"w{n}") for n in range(99)]
    assert found.lines == {"a value that is no text": [100]}
    assert asked == [("some/pairs", "fr-en", {"split": "train", "streaming": streaming})]
    assert read(**part, lines=3, streaming=streaming).pairs == found.pairs[:3]
    if not streaming:
        with pytest.raises(UserError, match=r"data.train.target: unknown column 'traduction.en'"):
            read(**part | {"target": "traduction.en"})


def test_a_class_of_the_hub_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class DataSet(list[Any]):
        column_names = ("text", "label")
        features: ClassVar[dict[str, Any]] = {
            "text": SimpleNamespace(),
            "label": SimpleNamespace(names=["no", "yes"]),
        }

    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 0}, {"text": "c", "label": -1}]
    stream = SimpleNamespace(load_dataset=lambda *_, **__: DataSet(rows))
    monkeypatch.setitem(sys.modules, "datasets", stream)
    for columns in ({"text": "text", "label": "label"}, {"text": 0, "label": 1}):
        wanted = Wanted(columns, "data.train", numbers=frozenset({"label"}), classes={})
        rows_read = hub_rows("a", None, "train", wanted, streaming=False)
        assert [getattr(row, "texts", row) for row in rows_read] == [
            ("a", "yes"),
            ("b", "no"),
            ("c", "-1"),
        ]
        assert wanted.classes == {"label": ("no", "yes")}


def test_what_the_hub_refuses_and_what_is_not_installed(
    read: Read, table: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_dataset(*_: Any, **__: Any) -> None:
        raise ValueError("Unknown split 'train'")

    part = {"hub": "some/pairs", "source": "fr", "target": "en"}
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(UserError, match=r"data.train.hub: cannot load the data set: Unknown split"):
        read(**part)

    class Stream:
        column_names = None

        def __iter__(self) -> Any:
            yield {"fr": "un", "en": "one"}
            raise ConnectionError("reset by peer")

    stream = SimpleNamespace(load_dataset=lambda *_, **__: Stream())
    monkeypatch.setitem(sys.modules, "datasets", stream)
    with pytest.raises(UserError, match=r"data.train.hub: the data set breaks off after row 1: re"):
        read(**part, streaming=True)
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for get in (lambda: read(**part), lambda: table("x.parquet", "x")):
        with pytest.raises(UserError, match="which is not installed") as caught:
            get()
        assert caught.value.todo == "install it: pip install 'headway[hub]'"


def test_a_quote_that_stays_open_for_a_hundred_lines_is_a_broken_one(table: Read) -> None:
    good = [(f"b{n}", f"c{n}") for n in range(150)]
    found = table("x.csv", 'x,"a\n' + "".join(f"{b},{c}\n" for b, c in good) + '"\n')
    assert found.pairs == good
    assert found.lines == {"broken quotes": [1, 152]}


def test_settings_that_mean_nothing_there_are_refused(table: Read) -> None:
    for setting in ({"quoting": "csv"}, {"separator": ";"}):
        with pytest.raises(
            UserError, match=r"data.train: separator and quoting are for tsv and csv"
        ):
            table("x.jsonl", '["a", "A"]\n', **setting)
