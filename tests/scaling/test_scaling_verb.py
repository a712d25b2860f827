"""headway scaling, from its command line to its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.scaling.published import BESIROGLU

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Losses of the fit of 2024, at five sizes around the best of four budgets, and curves."""
    path = tmp_path_factory.mktemp("scaling") / "runs.csv"
    lines = ["params,tokens,loss"]
    for flop in np.geomspace(1e18, 1e21, 4):
        for params in BESIROGLU.optimum(float(flop)).params * np.geomspace(0.3, 3, 5):
            tokens = flop / (6 * params)
            lines.append(f"{params},{tokens},{BESIROGLU.loss(float(params), float(tokens))}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_fit_writes_what_it_says(cli: Cli, table: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "fit.json", tmp_path / "fit.svg"
    options = ("--resamples", 10, "--json", out, "--picture", picture)
    said = cli("scaling", "fit", table, *options)
    assert said.code == 0, said
    found = json.loads(out.read_text(encoding="utf-8"))
    assert {name: found[name] for name in BESIROGLU.constants} == pytest.approx(
        BESIROGLU.constants, rel=1e-3
    )
    assert found["intervals"].keys() == {*BESIROGLU.constants, "size_exponent"}
    assert found["runs"] == len(found["each"]) == 20
    assert found["left_out"]["forecast"] == 5
    assert "beta / (alpha + beta)  0.512" in said.out.decode()
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_columns_of_any_name_are_named(cli: Cli, table: Path, tmp_path: Path) -> None:
    """The fit of the same table under the names that are found alone."""
    other, outs = tmp_path / "theirs.csv", [tmp_path / "a.json", tmp_path / "b.json"]
    rows = table.read_text(encoding="utf-8").partition("\n")[2]
    other.write_text(f"what it weighs,tokens,nats at the end\n{rows}", encoding="utf-8")
    names = ("--size-column", "what it weighs", "--loss-column", "nats at the end")
    for path, out, more in ((table, outs[0], ()), (other, outs[1], names)):
        said = cli("scaling", "fit", path, "--resamples", 0, "--json", out, *more)
        assert said.code == 0, said
    ours, theirs = (json.loads(out.read_text(encoding="utf-8")) for out in outs)
    assert theirs["runs"] == 20
    assert {key: theirs[key] for key in BESIROGLU.constants} == {
        key: ours[key] for key in BESIROGLU.constants
    }
    assert "no column of losses" in cli("scaling", "fit", other, *names[:2]).error


@pytest.mark.parametrize(
    ("law", "key", "value"),
    [("isoflop", "a", 0.5126), ("power", "x", "tokens"), ("envelope", "law", "envelope")],
)
def test_the_other_laws(
    cli: Cli, table: Path, tmp_path: Path, law: str, key: str, value: object
) -> None:
    if law == "envelope":
        rows = ["params,tokens,loss"]
        for params in np.geomspace(1e7, 1e9, 7):
            for tokens in params * np.geomspace(1, 1000, 20):
                rows.append(f"{params},{tokens},{BESIROGLU.loss(float(params), float(tokens))}")
        table = tmp_path / "curves.csv"
        table.write_text("\n".join(rows), encoding="utf-8")
    out, picture = tmp_path / "fit.json", tmp_path / "fit.png"
    options = ("--law", law, "--x", "tokens", "--resamples", 10)
    said = cli("scaling", "fit", table, *options, "--json", out, "--picture", picture)
    assert said.code == 0, said
    found = json.loads(out.read_text(encoding="utf-8"))
    expected = pytest.approx(value, rel=0.01) if isinstance(value, float) else value
    assert found[key] == expected
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("law", "key", "value"), [("chinchilla", "E", 1.8172), ("envelope", "a", 0.513)]
)
def test_runs_are_fitted_from_their_folders(
    cli: Cli, tmp_path: Path, law: str, key: str, value: float
) -> None:
    for params in np.geomspace(1e7, 1e9, 9).astype(int).tolist():
        folder = tmp_path / f"run{params}"
        folder.mkdir()
        config = json.dumps({"format": 1, "parameters": params})
        (folder / "config.json").write_text(config, encoding="utf-8")
        end = 1000 * params * (params % 7 + 1)  # of its own, so that size and tokens part
        seen = np.geomspace(params, end, 80).astype(int).tolist()
        records = [
            {"kind": "train", "step": step, "tokens": tokens, "nll": BESIROGLU.loss(params, tokens)}
            for step, tokens in enumerate(seen)
        ]
        records.append(records[-1] | {"kind": "valid"})
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    out = tmp_path / "fit.json"
    folders = sorted(tmp_path.glob("run*"))
    said = cli("scaling", "fit", *folders, "--law", law, "--resamples", 0, "--json", out)
    assert said.code == 0, said
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found[key] == pytest.approx(value, rel=0.03)


def test_a_picture_is_not_overwritten_by_its_numbers(cli: Cli, tmp_path: Path) -> None:
    both = tmp_path / "laws.svg"
    for words in (("laws",), ("coordinates", "lm/bytes", "--widths", "8,16")):
        said = cli("scaling", *words, "--json", both, "--picture", both)
        assert "this file has another part in the command" in said.error
    assert not both.exists()


def test_laws_are_listed_asked_and_drawn(cli: Cli, tmp_path: Path) -> None:
    out, picture = tmp_path / "laws.json", tmp_path / "laws.png"
    said = cli("scaling", "laws", "--json", out, "--picture", picture)
    assert said.code == 0, said
    assert "Kaplan 2020, equation 1.1" in said.out.decode()
    assert len(json.loads(out.read_text(encoding="utf-8"))) == 11
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = cli("scaling", "laws", "besiroglu", "--flop", "5.76e23", "--json", out)
    (answer,) = json.loads(out.read_text(encoding="utf-8"))
    assert answer["tokens"] / answer["params"] == pytest.approx(18.4, abs=0.05)
    assert "×44.3" in said.out.decode()
    said = cli("scaling", "laws", "--loss", "1.8")
    assert "note: besiroglu: no training reaches a loss of 1.8" in said.out.decode()
    said = cli("scaling", "laws", "sardana", "--loss", "2.045", "--served", "2T")
    assert "6.99B" in said.out.decode()
    said = cli("scaling", "table", "--json", out)
    assert "20.1T" in said.out.decode()
    assert len(json.loads(out.read_text(encoding="utf-8"))) == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("laws", "besiroglu", "--loss", "1.5"), "stays above 1.817"),
        (("laws", "--flop", "0"), "--flop: '0' must be a number above 0"),
        (("laws", "--loss", "1e300"), "--loss: '1e300' is beyond all that can be planned"),
        (("laws", "kaplan-c", "--loss", "1e30"), "flop must be a number above 0, not 0"),
        (("laws", "kaplan-c", "--loss", "1e-30"), "flop must be a number above 0, not inf"),
        (("laws", "--params", "-7B"), "--params"),
        (("laws", "--served", "3"), "no law answers what follows from served"),
        (("laws", "chinchilla", "--params", "1B", "--tokens", "1T", "--unique", "1B"), "none of"),
        (("fit", "TABLE", "--size-column", "sizes"), "unknown column 'sizes'"),
        (("fit", "TABLE", "--drop-highest", "20"), "20 of 20 runs cannot be left out"),
        (("fit", "TABLE", "--drop-highest", "15"), "cannot be fitted to 5 runs"),
        (("fit", "TABLE", "TABLE"), "this is no folder of a run"),
        (("fit", "FOLDER"), "this is no run and no table"),
        (("fit", "FOLDER", "--loss-column", "nll"), "runs have no column 'nll'"),
        (("fit", "TABLE", "--picture", "fit.pdf"), "PNG or SVG"),
        (("fit", "TABLE", "--json", "TABLE"), "would be overwritten"),
    ],
)
def test_nonsense_is_refused(
    cli: Cli, table: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    places = {"TABLE": str(table), "FOLDER": str(tmp_path)}
    answer = cli("scaling", *(places.get(word, word) for word in words))
    assert said in answer.error
