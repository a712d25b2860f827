"""headway plan and headway info PRESET, as people ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.scaling.units import duration, hours, money, quantity, short
from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]
LAW = {"E": 1.0, "A": 200.0, "B": 800.0, "alpha": 0.3, "beta": 0.35, "law": "chinchilla"}
FIT = {**LAW, "residuals": {"rms_percent": 2.0}, "measured": {"params": [2e7, 1e9]}}
QUICK = """
import sys
sys.argv = ["headway", "plan", "--money", "10k", "--serve-tokens", "1T"]
from headway.cli.main import main
main()
assert "torch" not in sys.modules
"""


def test_a_plan_is_told_and_written(cli: Cli, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("plan.json", "plan.html", "plan.toml")]
    options = [word for pair in zip(("--json", "--html", "--recipe"), files, strict=True)
               for word in pair]  # fmt: skip
    said = cli("plan", "--money", "1k", "--serve-tokens", "10B", *options)
    assert said.code == 0, said.err
    text = said.out.decode()
    assert "Money $1,000, tokens served 10B, on NVIDIA H100 SXM5 80 GB" in text
    assert text.splitlines()[2].split() == ["compute-optimal", "for", "serving", "little", "text"]
    assert "$3.99 an hour" in text
    table = json.loads(files[0].read_text("utf-8"))
    best = table["choices"][0]
    assert best["name"] == "compute-optimal"
    counted = best["shape"]["parameters"]
    assert counted["without_embeddings"] < counted["with_head"] <= counted["all"]
    assert best["loss"]["low"] <= best["loss"]["likely"] <= best["loss"]["high"]
    assert load_recipe(files[2], {"data.train.text.files": "a.txt"}).train.steps > 1
    page = files[1].read_text("utf-8")
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    assert tags.count("svg") == 1
    assert {"script", "link", "img", "iframe"}.isdisjoint(tags)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_another_choice_has_another_recipe(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "plan.toml"
    said = cli("plan", "--money", "1k", "--recipe", out, "--choice", "for serving")
    assert said.code == 0, said.err
    assert "for serving" in load_recipe(out, {"data.train.text.files": "a"}).description
    said = cli("plan", "--money", "1k", "--recipe", out, "--choice", "serving")
    assert "did you mean 'for serving'?" in said.error


def test_a_law_of_ones_own_and_machines_of_ones_own(cli: Cli, tmp_path: Path) -> None:
    law = tmp_path / "fit.json"
    law.write_text(json.dumps(FIT), encoding="utf-8")
    said = cli("plan", "--params", "10M", "--law", law, "--machine", "laptop-cpu")
    text = said.out.decode()
    assert "Loss: law 'fit' (fitted, fit.json), in nats" in text
    assert "by how far those of the fit are from it" in text
    assert "? is outside what the law was measured on (20M to 1B parameters)" in text
    loss = next(line for line in text.splitlines() if line.startswith("expected loss"))
    spread = next(line for line in text.splitlines() if line.startswith("… range"))
    likely, (low, _, high) = float(loss.split()[2]), spread.split()[2:5]
    assert float(high) / likely == pytest.approx(likely / float(low), abs=1e-3)
    assert float(high) / likely == pytest.approx(1.04, abs=1e-3)
    law.write_text(json.dumps({**LAW, "beta": "much"}), encoding="utf-8")
    assert "no number above 0 for beta" in cli("plan", "--params", "1B", "--law", law).error
    assert "none of size and tokens" in cli("plan", "--params", "1B", "--law", "kaplan-c").error
    assert "unknown law 'gopher'" in cli("plan", "--params", "1B", "--law", "gopher").error
    assert "no such file" in cli("plan", "--params", "1B", "--law", tmp_path / "a.json").error


def test_the_table_says_what_money_buys(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "table.json"
    said = cli("plan", "--table", "--json", out)
    assert said.code == 0, said.err
    assert [line.split()[0] for line in said.out.decode().splitlines()[3:]] == [
        *("$100", "$1,000", "$10,000", "$100,000", "$1M", "$10M"),
    ]
    losses = [plan["choices"][0]["loss"]["likely"] for plan in json.loads(out.read_text("utf-8"))]
    assert losses == sorted(losses, reverse=True)
    poor = cli("plan", "--table", "--machine", "t4").out.decode()
    assert poor.count("$") == 5
    assert "left out: --machine: 49.9B parameters do not fit on 131,072 NVIDIA T4" in poor
    assert "has no price" in cli("plan", "--table", "--machine", "laptop-cpu").error
    assert "--table asks for nothing" in cli("plan", "--table", "--money", "10").error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--money", "0"), "--money: '0' must be a number above 0"),
        (("--money", "-5"), "'-5' is not a number"),
        (("--params", "7Q"), "unknown unit, 'Q'; multiples are k"),
        (("--hours", "3 fortnights"), "unknown unit, 'fortnights'; units are s, min, h"),
        (("--params", "1,5B"), "'1,5B' is not a number"),
        (("--tokens", "many"), "'many' is not a number; such as 7B"),
        (("--money", "nan"), "'nan' is not a number"),
        (("--money", "1e400"), "'1e400' is beyond all that can be planned"),
        (("--loss", "1.8"), "stays above 1.817"),
        ((), "not enough to plan with"),
    ],
)
def test_mistakes_are_told(cli: Cli, words: tuple[str, ...], said: str) -> None:
    told = cli("plan", *words)
    assert told.code == 2
    assert said in told.error


def test_an_answer_takes_less_than_a_second_and_no_torch() -> None:
    before = os.times()
    subprocess.run([sys.executable, "-c", QUICK], check=True, capture_output=True)
    after = os.times()  # of work: a clock on a busy machine measures others
    taken = after.children_user + after.children_system
    assert taken - before.children_user - before.children_system < 1.0


def test_numbers_are_read_and_said_as_people_write_them() -> None:
    for text, value in (("7B", 7e9), ("1.5T", 1.5e12), ("10k", 1e4), ("$1,000", 1e3), ("3e9", 3e9)):
        assert quantity(text, where="--x") == value
    assert [hours(text, where="--x") for text in ("36", "2d", "90min")] == [36, 48, 1.5]
    with pytest.raises(UserError, match="unknown unit, 'h'"):
        quantity("3h", where="--x")
    said = [short(x) for x in (0.5, 999, 1e3, 999_999, 1.24e9, 7e12, 5.2e22)]
    assert said == ["0.5", "999", "1k", "1M", "1.24B", "7T", "5.2e+22"]
    assert [money(x) for x in (0.0001, 0.42, 1250, 3.2e6)] == [
        "$0.0001",
        "$0.42",
        "$1,250",
        "$3.2M",
    ]
    said = [duration(x) for x in (0.01, 0.5, 7.2, 300, 1e5)]
    assert said == ["36 s", "30 min", "7.2 h", "12.5 days", "11.4 years"]


def test_a_preset_comes_to_its_numbers(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "sheet.json"
    said = cli("info", "llama-3.2-1b", "--length", "2048", "--json", out)
    assert said.code == 0, said.err
    assert "1,235,814,400" in said.out.decode()
    sheet = json.loads(out.read_text("utf-8"))
    counted = sheet["parameters, 128,256 ids"]
    assert counted["without embeddings and output"] == 1_235_814_400 - 128_256 * 2048
    memory = sheet["training bytes, one text of 2,048 tokens, bfloat16, AdamW"]
    fused, reference = (memory[f"peak, {how} attention"] for how in ("fused", "reference"))
    assert memory["peak, fused attention, checkpointed"] < fused < reference
    cache = sheet["cache bytes a text"]
    assert cache["2,048 tokens, bfloat16"] == 2 * 2 * 16 * 8 * 64 * 2048
    assert "are for a preset" in cli("info", tmp_path, "--length", "8").error


@pytest.mark.parametrize("name", ["bert-base", "transformer-base"])
def test_encoders_and_translators_come_to_theirs(cli: Cli, name: str) -> None:
    said = cli("info", name)
    assert said.code == 0, said.err
    assert "attention in full" in said.out.decode()


def test_a_loss_above_that_of_guessing_is_told(cli: Cli) -> None:
    """The laws were fitted to models thousands of times as large as ten minutes of a laptop."""
    said = cli("plan", "--hours", "10min", "--machine", "laptop-cpu")
    text = " ".join(said.out.decode().split())
    assert "Guessing among 4,096 ids has a loss of ln 4,096 = 8.32" in text
    assert "no loss to expect: compute-optimal, for serving, little text." in text
    said = cli("plan", "--money", "1k")
    assert "Guessing" not in said.out.decode()
