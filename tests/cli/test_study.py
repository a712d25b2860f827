from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.studies import listing, scaling_dk
from headway.studies.listing import NAMES

Cli = Callable[..., Any]


def test_without_a_name_all_are_listed(cli: Cli) -> None:
    said = cli("study")
    assert said.code == 0
    lines = said.out.decode("utf-8").splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert "one vector" in lines[0]


def test_a_name_that_is_none(cli: Cli) -> None:
    assert "did you mean 'bottleneck'" in cli("study", "bottelneck").error


def test_a_study_says_what_it_found(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"train.steps": 2, "train.batch_tokens": 128, "data.train.lines": 300}
    tiny |= {"data.test.lines": 20, "model.d_model": 16, "model.d_feed_forward": 16}
    full = scaling_dk.STUDY.settings(True)
    small = {
        name: {**each, "set": each["set"] | tiny} if "set" in each else {**each, "queries": 50}
        for name, each in full.items()
    }
    study = scaling_dk.STUDY
    changed = type(study)(study.name, study.claim, lambda _: small, study.measure, study.conclude)
    monkeypatch.setattr(listing, "find_study", lambda _: changed)
    out, file = tmp_path / "out", tmp_path / "a.json"
    said = cli("study", "scaling-dk", "--quick", "--out", out, "--json", file)
    assert said.code == 0, said.err
    printed = said.out.decode("utf-8")
    assert printed.startswith(f"scaling-dk: {study.claim}\n")
    assert "exponent of d_k in the variance of q·k: " in printed
    assert "the variance of q·k grows as d_k" in printed
    assert str(out / "picture.svg") in printed.splitlines()
    assert "1 of 3: random vectors, seed 1" in said.err
    table = json.loads(file.read_text(encoding="utf-8"))
    assert table == json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert table["paragraph"] in printed
    verdict = "holds" if table["holds"] else "does not hold in all points"
    assert f"The claim {verdict} in these numbers." in printed
