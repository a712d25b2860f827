"""Sweeps: which runs there are, that they go on, that a forecast comes before what it is of.

The runs are those of a stand-in (conftest.py); test_sweep_trained.py really trains.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.scaling.grid import budgets_of, make_grid, sizes_of
from headway.scaling.laws import ParametricLaw
from headway.scaling.shapes import resized, widened
from headway.scaling.sweep import HELD_OUT, begin_sweep, open_sweep
from headway.scaling.sweep_report import write_sweep_report
from headway.scaling.sweep_run import list_runs, run_one, run_sweep
from headway.settings.counting import count_parameters
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

Cli = Callable[..., Any]
LAW = ParametricLaw(name="toy", source="", E=1.5, A=40.0, B=60.0, alpha=0.4, beta=0.38)
BUDGETS, SIZES = [1e9, 2e9, 4e9], [(6e3, False), (12e3, False), (24e3, False)]


def test_a_grid_has_equal_compute_and_the_recipes_proportions(recipe: LanguageRecipe) -> None:
    runs, notices = make_grid(recipe, 260, BUDGETS, [*SIZES, (4.0, True), (1e6, False)])
    assert [run.budget for run in runs] == sorted(run.budget for run in runs)
    assert len(runs) == 10  # two of the factors come to sizes that are there
    assert len(notices) == 3
    for run in runs:
        found = load_recipe(run.recipe)
        assert isinstance(found, LanguageRecipe)
        assert run.flops == pytest.approx(run.budget, rel=0.5 / run.steps + 1e-9)
        assert run.tokens == found.train.steps * 256
        assert run.params == count_parameters(found.model, 260).all
        assert found.model.head_width == recipe.model.head_width
        assert found.train.mup is not None
        assert found.train.mup.base_width == recipe.model.d_model
        assert found.train.learning_rate == recipe.train.learning_rate
        assert found.train.warmup <= found.train.steps / 9
        assert found.train.evaluate_every == found.train.steps


def test_a_model_is_resized_in_its_proportions(recipe: LanguageRecipe) -> None:
    own = recipe.model
    assert widened(own, own.d_model) == own
    assert resized(own, 260, count_parameters(own, 260).all) == own
    large = load_recipe("lm/stdlib").model
    assert isinstance(large, type(own))
    for params in (3e6, 3e7, 3e8):
        found = resized(large, 4096, params)
        assert count_parameters(found, 4096).all == pytest.approx(params, rel=0.1)
        assert found.head_width == large.head_width
        ratio = found.d_model / found.n_layers
        assert 0.6 < ratio / (large.d_model / large.n_layers) < 1.7
    grouped = large.model_copy(update={"n_kv_heads": 2})
    assert widened(grouped, 96).kv_heads == 1
    with pytest.raises(UserError, match="multiple of 96"):
        widened(grouped, 48)
    with pytest.raises(UserError, match="as small as 100 parameters"):
        resized(own, 260, 100)


@pytest.mark.usefixtures("trainer")
def test_a_sweep_forecasts_what_it_then_makes(
    recipe: LanguageRecipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "law"
    sweep = begin_sweep(folder, recipe, BUDGETS, SIZES, 4.0)
    assert open_sweep(folder).table == begin_sweep(folder, recipe, BUDGETS, SIZES, 4.0).table
    (folder / "fails").write_text(sweep.runs[4]["name"], encoding="utf-8")
    with pytest.raises(UserError, match="1 of 9 runs failed; see there why") as error:
        run_sweep(sweep, processes=3, devices=["cpu"])
    assert f"{sweep.runs[4]['name']}.log" in str(error.value)
    assert "failed: it broke" in capsys.readouterr().err
    assert not (folder / "forecast.json").exists()
    assert len(sweep.finished()) == 8
    (folder / "fails").unlink()
    run_sweep(sweep, processes=2, devices=["cpu"])
    text = capsys.readouterr().out
    assert text.count("e9-") + text.count("e09-") >= 9
    assert "and the run inside its interval" in text
    made = json.loads((folder / "forecast.json").read_text("utf-8"))
    assert made["budget"] == 16e9
    assert made["flops"] == pytest.approx(16e9, rel=0.01)
    assert made["fit"]["runs"] == 9
    assert made["expected"] == pytest.approx(LAW.loss(made["params"], made["tokens"]), rel=0.02)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    measured = report["held_out"]["measured"]["loss"]
    error = 100 * (made["expected"] / measured - 1)
    assert report["held_out"]["error_percent"] == pytest.approx(error)
    assert made["low"] < measured < made["high"]
    assert made["low"] < made["expected"] < made["high"]
    assert report["training_seconds"] == 20.0
    page = (folder / "report.html").read_text("utf-8")
    assert page.count("data:image/svg+xml;base64,") == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    before = (folder / "forecast.json").read_bytes()
    run_sweep(sweep, processes=1, devices=["cpu"])
    assert (folder / "forecast.json").read_bytes() == before
    logs = [path.read_text("utf-8") for path in (folder / "logs").iterdir()]
    assert sorted(log.count("trains") for log in logs) == [1] * 9 + [2]
    assert "finished" in list_runs(sweep)
    assert list_runs(sweep).count("\n") == 13


@pytest.mark.usefixtures("trainer")
def test_sizes_around_the_best_are_drawn_as_parabolas(
    recipe: LanguageRecipe, tmp_path: Path
) -> None:
    """Five sizes a budget, the best among them: the second picture of the report."""
    sizes = [(size, False) for size in (3e3, 6e3, 12e3, 24e3, 48e3)]
    sweep = begin_sweep(tmp_path / "law", recipe, [4e9, 16e9], sizes, None)
    run_sweep(sweep, processes=4, devices=["cpu"])
    report = json.loads((sweep.folder / "report.json").read_text("utf-8"))
    best = report["isoflop"]["best"]
    for found, budget in zip(best, (4e9, 16e9), strict=True):
        runs = [run for run in report["runs"] if run["budget"] == budget]
        assert len(runs) == 5
        lowest = min(runs, key=lambda run: run["loss"])
        assert found["params"] == pytest.approx(lowest["params"], rel=0.5)
        assert found["loss"] == pytest.approx(lowest["loss"], rel=0.02)
    assert best[0]["params"] < best[1]["params"]
    page = (sweep.folder / "report.html").read_text("utf-8")
    assert 'alt="A parabola for each budget"' in page
    pictures = re.findall('data:image/svg[+]xml;base64,([^"]+)', page)
    drawn = [base64.b64decode(each).decode("utf-8") for each in pictures]
    assert [picture.count("A parabola for each compute") for picture in drawn] == [0, 1]


@pytest.mark.usefixtures("trainer")
def test_without_scipy_a_sweep_does_not_begin_and_a_report_says_why_it_has_no_law(
    recipe: LanguageRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = begin_sweep(tmp_path / "law", recipe, BUDGETS, SIZES, None)
    run_one(sweep, 1, device="cpu")
    assert "no law yet: " in "\n".join(write_sweep_report(sweep))
    assert "five constants cannot be fitted to 1 runs" in "\n".join(write_sweep_report(sweep))
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(UserError, match=r"needs the package 'scipy'.*'headway\[scaling\]'"):
        run_sweep(sweep, processes=1, devices=["cpu"])
    assert len(sweep.finished()) == 1
    for number in range(2, 10):  # as an array of Slurm makes them: that takes no law
        run_one(sweep, number, device="cpu")
    assert any("this needs the package 'scipy'" in line for line in write_sweep_report(sweep))


def test_a_sweep_can_be_moved(recipe: LanguageRecipe, tmp_path: Path) -> None:
    begin_sweep(tmp_path / "here", recipe, BUDGETS, SIZES, None)
    (tmp_path / "here").rename(tmp_path / "there")
    sweep = open_sweep(tmp_path / "there")
    place = (tmp_path / "there" / "tokenizer.json").resolve()
    assert sweep.recipe.tokenizer.file == str(place)
    assert f"--set=tokenizer.file={place}" in sweep.job(sweep.runs[0]["name"]).command("cpu")


@pytest.mark.usefixtures("trainer")
def test_two_processes_do_not_make_one_sweep(recipe: LanguageRecipe, tmp_path: Path) -> None:
    sweep = begin_sweep(tmp_path / "law", recipe, BUDGETS, SIZES, None)
    with RunFolder(sweep.folder).lock(), pytest.raises(UserError, match="another process"):
        run_sweep(sweep, processes=1, devices=["cpu"])


KILLED = """
import sys
from pathlib import Path
from headway.scaling import jobs
from headway.scaling.sweep import open_sweep
from headway.scaling.sweep_run import run_sweep
code = Path(sys.argv[2]).read_text()
jobs.Job.command = lambda job, device: [sys.executable, "-c", code, str(job.run)]
run_sweep(open_sweep(Path(sys.argv[1])), processes=2, devices=["cpu"])
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_sweep_leaves_nothing_running_and_goes_on(
    recipe: LanguageRecipe, trainer: str, tmp_path: Path, how: signal.Signals
) -> None:
    if how == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux ends the children of what is killed")
    folder, code = tmp_path / "law", tmp_path / "trainer.py"
    sweep = begin_sweep(folder, recipe, BUDGETS, SIZES, None)
    code.write_text(f"import os\nprint('pid', os.getpid())\n{trainer}", encoding="utf-8")
    (folder / "slow").write_text("30", encoding="utf-8")
    words = [sys.executable, "-c", KILLED, str(folder), str(code)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        started = time.monotonic()
        while sum(sweep.state(run["name"]) == "begun" for run in sweep.runs) < 2:
            assert time.monotonic() - started < 60
            time.sleep(0.05)
        process.send_signal(how)
        process.wait(30)
    logs = [path.read_text("utf-8") for path in (folder / "logs").iterdir()]
    for log in logs:
        await_end(int(log.split("pid ")[1].split()[0]))
    (folder / "slow").unlink()
    run_sweep(open_sweep(folder), processes=4, devices=["cpu"])
    assert len(sweep.finished()) == 9


def await_end(process: int) -> None:
    for _ in range(600):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        stat = Path(f"/proc/{process}/stat")
        if stat.exists() and stat.read_text("utf-8").rpartition(")")[2].split()[0] == "Z":
            return  # nobody waits for it in a container
        time.sleep(0.05)
    raise AssertionError("it still runs")


def test_what_cannot_be_swept_is_refused(cli: Cli, recipe: LanguageRecipe, tmp_path: Path) -> None:
    folder = tmp_path / "law"
    begin_sweep(folder, recipe, BUDGETS, SIZES, None)
    with pytest.raises(UserError, match="there is another sweep; go on with it by --out alone"):
        begin_sweep(folder, recipe, BUDGETS, SIZES, 4.0)
    with pytest.raises(UserError, match="held out must be a number above 0, not nan"):
        begin_sweep(tmp_path / "a", recipe, BUDGETS, SIZES, float("nan"))
    without = recipe.model_copy(update={"data": recipe.data.model_copy(update={"held_out": 0.0})})
    with pytest.raises(UserError, match=r"data.held_out"):
        begin_sweep(tmp_path / "a", without, BUDGETS, SIZES, None)
    with pytest.raises(UserError, match="no run has 20 steps; raise them"):
        make_grid(recipe, 260, [1e6], SIZES)
    for text in ("0", "1e12,", "much"):
        with pytest.raises(UserError, match="--budgets"):
            budgets_of(text)
    with pytest.raises(UserError, match="--sizes"):
        sizes_of("1x,x")
    for words, said in (
        (("--out", tmp_path / "b"), "not a sweep: there is no sweep.json"),
        (("--budgets", "1e9"), "no recipe is named"),
        (("--out", folder, "--sizes", "1x"), "no recipe is named"),
        (("lm/stdlib",), "no compute is named"),
        (("bert/pretrain-small", "--budgets", "1e9"), "not the recipe of a causal"),
        (("--out", folder, "--job", 10), "there are 9 runs"),
    ):
        assert said in cli("scaling", "sweep", *words).error
    assert "no run of this sweep has finished" in cli("scaling", "report", folder).error
    listed = cli("scaling", "sweep", "--out", folder, "--list").out.decode()
    assert "sbatch --array=1-9 --wrap 'headway scaling sweep --out" in listed
    assert HELD_OUT not in listed
