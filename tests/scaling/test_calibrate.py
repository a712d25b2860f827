"""What finished runs say of a machine, and that plans then expect it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.scaling.calibrate import calibrate, find_runs, keep, read_timed
from headway.scaling.costs import flops_a_token, moved_a_flop, repeats
from headway.scaling.hardware import load_hardware
from headway.scaling.plan import make_plan
from headway.scaling.question import Question
from headway.scaling.shapes import Shape, shape_of
from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]
RATE, MOVES = 40e9, 6e9  # of the machine that these runs are made up for


def run(folder: Path, params: float, *, recomputes: bool = False, **environment: Any) -> Path:
    """A run of a planned shape, at R and W to the letter."""
    shape = shape_of(params, length=128, n_tokens=512)
    keys = {"model": shape.settings.to_table(), "data.length": 128, "train.dtype": "float32"}
    keys["train.checkpoint_activations"] = recomputes
    table = load_recipe("lm/stdlib", keys)
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(table.to_toml(), encoding="utf-8")
    config = {"format": 1, "model": shape.settings.to_table(), "n_tokens": 512}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    facts = {"processor": "A processor", "threads": 2, "accelerators": [], **environment}
    (folder / "environment.json").write_text(json.dumps(facts), encoding="utf-8")
    speed = 1 / seconds(shape, recomputes=recomputes)
    records = [{"kind": "train", "step": 1, "tokens_per_s": speed / 3}]
    records += [{"kind": "train", "step": step, "tokens_per_s": speed} for step in (2, 3)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return folder


def seconds(shape: Shape, *, recomputes: bool = False) -> float:
    flops = flops_a_token(shape)
    work = flops * repeats(shape, recomputes=recomputes)
    return work / RATE + flops * moved_a_flop(shape, "float32", "cpu") / MOVES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headway" / "hardware.toml"


def test_two_runs_tell_products_from_moving_and_forecast_others(tmp_path: Path) -> None:
    for name, params in (("a", 1e5), ("b", 3e6)):
        run(tmp_path / "runs" / name, params, recomputes=name == "b")
    runs = [read_timed(each) for each in find_runs([tmp_path / "runs"])]
    found = calibrate(runs)
    assert found.rate == pytest.approx(RATE, rel=1e-6)
    assert found.moves == pytest.approx(MOVES, rel=1e-6)
    for params in (3e5, 2e7):
        other = read_timed(run(tmp_path / f"other{params}", params))
        assert found.modelled(other) == pytest.approx(other.tokens_per_s, rel=1e-6)
    alone = calibrate(runs[:1])
    assert alone.moves is None
    assert alone.modelled(runs[0]) == pytest.approx(runs[0].tokens_per_s)


def test_runs_of_two_machines_or_dtypes_are_not_mixed(tmp_path: Path) -> None:
    one, two = run(tmp_path / "a", 1e5), run(tmp_path / "b", 1e6, threads=1)
    with pytest.raises(UserError, match=r"not of one machine: .*2 threads; .*1 threads"):
        calibrate([read_timed(one), read_timed(two)])
    first = read_timed(one)
    with pytest.raises(UserError, match="not of one dtype"):
        calibrate([first, replace(first, dtype="bfloat16")])
    with pytest.raises(UserError, match="there is no run here"):
        find_runs([tmp_path / "nowhere"])


def test_a_machine_is_one_device(tmp_path: Path) -> None:
    alone = read_timed(run(tmp_path / "a", 1e5))
    four = read_timed(run(tmp_path / "b", 1e5, ranks=4))
    assert four.tokens_per_s == pytest.approx(alone.tokens_per_s / 4)
    for device, name in (("cpu", "A processor, 2 threads"), ("cuda:1", "two"), ("cuda", "one")):
        places = {"accelerators": ["one", "two"], "device": device}
        timed = read_timed(run(tmp_path / device, 1e5, **places))
        assert (timed.machine, timed.on_card) == (name, device != "cpu")
    with pytest.raises(UserError, match="how much memory one has is not known"):
        keep(calibrate([timed]), None, None)
    assert keep(calibrate([timed]), "h200", None)[1] == "h200"


def test_what_was_measured_is_what_is_trained_in(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    found = calibrate([read_timed(run(tmp_path / "a", 1e6))])
    for name in ("h200", "tpu-v5e"):  # of a far higher peak in bfloat16, and in that alone
        keep(found, name, own)
        machine = load_hardware(own).find(name)
        assert machine.dtype == "float32"
        rate = pytest.approx(found.rate, rel=1e-3)
        assert load_hardware(own).rate(machine) == (rate, rate, rate)
        assert load_hardware(own).rate(machine, 0.5)[0] > 0
    keep(calibrate([replace(found.runs[0], dtype="bfloat16")]), "h200", own)
    machine = load_hardware(own).find("h200")
    assert machine.measured is not None
    assert (machine.dtype, machine.measured.float32) == ("bfloat16", None)


def test_plans_expect_what_was_measured(cli: Cli, cache: Path, tmp_path: Path) -> None:
    runs = [run(tmp_path / "runs" / name, params) for name, params in (("a", 1e5), ("b", 3e6))]
    said = cli("plan", "--calibrate", *runs[:1], "--calibrate", runs[1], "--json", tmp_path / "j")
    assert said.code == 0, said.err
    assert "A processor, 2 threads: 40 GFLOP/s, float32, moving 6 GB/s" in said.out.decode()
    assert f"kept in {cache}" in said.out.decode()
    assert json.loads((tmp_path / "j").read_text("utf-8"))["rate"] == pytest.approx(RATE)
    machine = load_hardware().find("here")
    assert machine.measured is not None
    assert (machine.measured.float32, machine.measured.moves) == (0.04, 6.0)
    assert machine.memory > 0.1
    assert machine.device == "cpu"
    asked = Question(params=4e5, tokens=1e7, machine="here", length=128, vocabulary=512)
    planned = make_plan(asked, load_hardware()).choices[0]
    expected = 1 / seconds(planned.shape)
    assert planned.cost.tokens_per_second.likely == pytest.approx(expected, rel=1e-3)
    assert planned.cost.hours.likely == pytest.approx(1e7 / expected / 3600, rel=1e-3)
    # where time decides the size, the time is kept to although speed depends on the size
    for hours in (1.0, 10.0):
        asked = Question(hours=hours, machine="here")
        for choice in make_plan(asked, load_hardware()).choices:  # each has a speed of its own
            assert choice.cost.hours.likely == pytest.approx(hours, rel=1e-6)
        served = Question(hours=hours, machine="here", serve_tokens=1e6)
        choice = make_plan(served, load_hardware()).choices[1]
        assert choice.serving is not None
        spent = choice.cost.hours.likely + choice.serving.hours.likely
        assert spent == pytest.approx(hours, rel=1e-6)
    again = make_plan(Question(hours=1, machine="here", unique_tokens=5e6), load_hardware())
    assert [choice.unique_tokens for choice in again.choices if choice.epochs > 1] == [5e6]
    said = cli("plan", "--hours", "1", "--machine", "here")
    assert "rate measured on this machine" in said.out.decode()


def test_a_machine_of_the_table_keeps_its_other_figures(cli: Cli, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('[machine.x]\nname = "X"\npeak = { float32 = 1.0 }\nmemory = 8.0\n'
                   'source = "s"\ndate = 2026-01-01\n', encoding="utf-8")  # fmt: skip
    found = calibrate([read_timed(run(tmp_path / "a", 1e6))])
    assert keep(found, "h200", own) == (own, "h200")
    hardware = load_hardware(own)
    assert hardware.find("x").memory == 8.0
    assert hardware.find("h200").price == load_hardware().find("h200").price
    assert hardware.find("h200").measured is not None
    assert set(hardware.rate(hardware.find("x"))) != set(hardware.rate(hardware.find("h200")))
    before = own.read_bytes()
    words = ("plan", "--calibrate", tmp_path / "a", "--hardware", own, "--machine", "here:2")
    assert "--machine: 'here:2' cannot be the name of a machine" in cli(*words).error
    assert own.read_bytes() == before
