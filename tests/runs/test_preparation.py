"""The whole preparation on one's own data: each kind of row is counted exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.data.pairs import collect, open_part
from headway.runs.prepare import Prepared, prepare
from headway.settings.recipe import load_recipe

TranslationRecipe = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]
GOOD, BAD, LONG, AGAIN, EMPTY, QUOTES = 920, 30, 20, 20, 10, 50
SHORTER_THAN = 15


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no line breaks."""
    monkeypatch.setenv("COLUMNS", "250")


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """A TSV of 1000 rows: head, mark, CRLF, 3 % bad, 2 % too long, duplicates, quotes, blanks."""
    rows = [f"{n}\tle chat {n}\tthe cat {n}" for n in range(GOOD)]
    for n in range(QUOTES):
        rows[n] = f'{n}\t"le chat\tthe "cat" {n}'
    bad = [f"{n}\tle chien {n}" if n % 2 else f"{n}\ta\tb\tc" for n in range(BAD)]
    long = [f"{n}\t{'très ' * (20 + n)}\tvery" for n in range(LONG)]
    again = [f"9{n}\tle chat {100 + n}\tthe cat {100 + n}" for n in range(AGAIN)]
    empty = [f"{n}\t \tnothing" for n in range(EMPTY)]
    # spread over the file, so that no block is like another
    every = sorted([*rows, *bad, *long, *again, *empty], key=lambda row: sum(map(ord, row)) % 97)
    text = "\r\n".join(["id\tfr\ten", *every]) + "\r\n"
    path = tmp_path / "messy.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode("utf-8"))
    return path


@pytest.fixture
def recipe(messy: Path, toy_recipe: TranslationRecipe) -> TranslationRecipe:
    def table(duplicates: str = "keep") -> dict[str, Any]:
        made = toy_recipe("transformer", steps=3, evaluate_every=10)
        made["evaluate"] = {"lines": 2, "beam": 1}
        del made["data"]["test"]
        made["data"]["train"] = {"file": str(messy), "source": "fr", "target": "en"}
        made["data"]["duplicates"] = duplicates
        made["data"]["max_tokens"] = SHORTER_THAN
        return made

    return table


def counts(prepared: Prepared) -> tuple[dict[str, int], dict[str, int]]:
    report = prepared.report
    return tuple(  # type: ignore[return-value]
        {finding.kind: finding.count for finding in findings}
        for findings in (report.dropped, report.noticed)
    )


@pytest.mark.parametrize("duplicates", ["keep", "drop"])
def test_each_kind_of_row_is_counted(duplicates: str, recipe: TranslationRecipe) -> None:
    prepared = prepare(load_recipe(recipe(duplicates)))
    dropped, noticed = counts(prepared)
    again = {"seen before": AGAIN}
    others = {"a wrong number of fields": BAD, "an empty side": EMPTY, "too many tokens": LONG}
    assert dropped == (others | again if duplicates == "drop" else others)
    assert noticed == ({} if duplicates == "drop" else again)
    kept = GOOD + (AGAIN if duplicates == "keep" else 0)
    assert prepared.report.read == GOOD + BAD + LONG + AGAIN + EMPTY
    assert prepared.report.kept == len(prepared.train) == kept
    assert sum(prepared.report.source.lengths) == kept + LONG
    assert prepared.report.source.tokens == prepared.train.source.lengths.sum()
    assert prepared.report.target.tokens == prepared.train.target.lengths.sum()
    assert prepared.report.source.longest > prepared.train.source.lengths.max()
    rows = prepared.tokenizers.source.decode([prepared.train.source.ids[: SHORTER_THAN * 400]])
    assert '"le chat' in rows[0]
    json.dumps(prepared.report.to_table())


def test_a_run_on_it_trains_and_resumes(
    recipe: TranslationRecipe, messy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    headway.train(recipe(), out=run)
    told = capfd.readouterr().err
    for line in (
        f"train: {BAD} rows left out: a wrong number of fields (lines ",
        f"train: {EMPTY} pairs with an empty side left out",
        f"{LONG} pairs longer than {SHORTER_THAN} tokens left out",
        f"train: {AGAIN} pairs that were there before kept",
    ):
        assert line in told
    report = json.loads((run / "data.json").read_text(encoding="utf-8"))
    assert (report["read"], report["kept"]) == (1000, GOOD + AGAIN)
    assert {each["kind"]: each["count"] for each in report["noticed"]} == {"seen before": AGAIN}
    assert {each["kind"]: each["count"] for each in report["dropped"]} == {
        "a wrong number of fields": BAD,
        "an empty side": EMPTY,
        "too many tokens": LONG,
    }
    headway.train(None, out=run, resume=True, train={"steps": 4})
    messy.write_bytes(messy.read_bytes().replace(b"le chat 7", b"le chat 8"))
    with pytest.raises(UserError, match="the train data are not what this run began with"):
        headway.train(None, out=run, resume=True, train={"steps": 5})


def test_the_parts_held_out_of_it_share_what_is_counted(recipe: TranslationRecipe) -> None:
    """Bad rows are told once; every other row is in one part."""
    table = recipe()
    del table["data"]["valid"]
    settings = load_recipe(table, {"data.held_out": 0.2})
    prepared = prepare(settings)
    dropped, _ = counts(prepared)
    assert dropped["a wrong number of fields"] == BAD
    empty = dropped.get("an empty side", 0)
    for name, held in (("valid", prepared.valid), ("test", prepared.test)):
        stream = open_part(settings.data, name)  # type: ignore[arg-type]
        assert stream is not None
        assert held is not None
        assert len(collect(stream)) == len(held) > 100
        assert stream.reading is not None
        assert stream.reading.read == dropped[f"held out for {name}"]
        assert stream.reading.rows == 1000
        empty += stream.reading.notes.count("an empty side")
    assert empty == EMPTY
    assert prepared.report.read == 1000
    assert prepared.report.kept == len(prepared.train) == 1000 - sum(dropped.values())


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_files_and_a_table_of_the_same_pairs_are_prepared_alike(
    joint: bool, toy: Path, toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    sides = [
        (toy / f"train.{end}").read_text(encoding="utf-8").splitlines() for end in ("fr", "en")
    ]
    rows = (f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
    (tmp_path / "t.tsv").write_text("".join(rows), encoding="utf-8")
    table = toy_recipe("plain")
    table["tokenizer"]["joint"] = joint
    one = prepare(load_recipe(table))
    table["data"]["train"] = {"file": str(tmp_path / "t.tsv"), "source": 0, "target": 1}
    other = prepare(load_recipe(table))
    given = prepare(load_recipe(table), one.tokenizers)
    assert one.hashes == other.hashes == given.hashes
    for made in (other, given):
        assert made.tokenizers.files() == one.tokenizers.files()
        for side in ("source", "target"):
            mine, its = getattr(made.train, side), getattr(one.train, side)
            assert (mine.ids == its.ids).all()
            assert (mine.starts == its.starts).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sides_of_very_different_length_and_unknown_words_are_noticed(
    toy_recipe: TranslationRecipe, tmp_path: Path
) -> None:
    pairs = [("un chat", "one cat")] * 50 + [("un " * 11 + "un", "one"), ("lynx un", "one cat")]
    rows = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (tmp_path / "t.tsv").write_text(rows, encoding="utf-8")
    table = toy_recipe("plain", batch_tokens=16)
    table["data"]["train"] = {"file": str(tmp_path / "t.tsv"), "source": 0, "target": 1}
    table["tokenizer"] |= {"min_count": 2, "joint": False}
    prepared = prepare(load_recipe(table))
    (apart,) = (each for each in prepared.report.noticed if "length" in each.kind)
    assert (apart.count, apart.examples[0].line) == (1, 51)
    assert apart.examples[0].text.startswith("(13 and 2 tokens) un un")
    assert prepared.report.source.examples == (("lynx", 1),)
    assert prepared.report.source.unknown == pytest.approx(1 / (2 * 51 + 12))
    assert prepared.report.source.lengths == (0, 51, 0, 1)  # 3 tokens with the end, 13
    assert prepared.report.target.lengths == (0, 52)


def test_the_preview_shows_it_all(
    recipe: TranslationRecipe, messy: Path, cli: Cli, tmp_path: Path
) -> None:
    path, found = tmp_path / "mine.toml", tmp_path / "found.json"
    path.write_text(load_recipe(recipe()).to_toml(), encoding="utf-8")
    said = cli("data", "preview", path, "--lines", 2, "--json", found)
    assert said.code == 0, said.err
    shown = said.out.decode("utf-8")
    for text in ("messy.tsv", "1,000 rows read, 940 pairs kept (94.0%)", "3.00%", "2.00%", "█"):
        assert text in shown, text
    table = json.loads(found.read_text(encoding="utf-8"))
    assert [pair["line"] for pair in table["pairs"]] == [2, 3]
    assert "▁" in "".join(table["pairs"][0]["source_pieces"])
    assert {each["kind"]: each["count"] for each in table["dropped"]} == {
        "a wrong number of fields": BAD,
        "an empty side": EMPTY,
        "too many tokens": LONG,
    }
    assert all(each["examples"][0]["line"] > 1 for each in table["dropped"])
    valid = cli("data", "preview", path, "--part", "valid")
    shown = valid.out.decode("utf-8")
    assert "20 rows read, 20 pairs kept (100.0%)" in shown  # nothing is left out of it
    assert "64 tokens a side are the limit" in shown
    assert list(tmp_path.glob("runs*")) == []


def test_the_preview_tells_swapped_columns_and_mistakes(
    messy: Path, cli: Cli, tmp_path: Path
) -> None:
    settings = {"file": messy, "source": "en", "target": "fr"}
    words = [
        word for key, value in settings.items() for word in ("--set", f"data.train.{key}={value}")
    ]
    small = ("--set", "tokenizer.size=300", "--set", "data.source_language=fr")
    said = cli("data", "preview", "pairs", *words, *small, "--lines", 1)
    assert said.code == 0, said.err
    (line,) = (
        line for line in said.out.decode("utf-8").splitlines() if " fr " in line and "the" in line
    )
    assert "cat" in line  # French, it says, and shows English
    assert "no part 'test'" in cli("data", "preview", "pairs", *words, "--part", "test").error
    words[-1] = "data.train.target=french"
    assert (
        "unknown column 'french'; did you mean 'fr'"
        in cli("data", "preview", "pairs", *words).error
    )
