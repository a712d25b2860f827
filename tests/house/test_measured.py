"""What the pages quote is what was measured: their figures against the committed results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headway.studies.listing import NAMES, find_study

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
EXPLANATION = ROOT / "docs" / "explanation"
MULTI30K = (ROOT / "docs" / "how-to" / "multi30k.md").read_text("utf-8")
CELL = re.compile(r"`(multi30k-[\w-]+\.json)`")
ROWS = [line for line in MULTI30K.splitlines() if line.startswith("|") and CELL.search(line)]


def wall_minutes(log: list[str]) -> int:
    """Of the line that `time` ends with, rounded up."""
    (spent,) = [line.split("\t")[1] for line in log if line.startswith("real\t")]
    match = re.fullmatch(r"(\d+)m([\d.]+)s", spent)
    assert match
    return int(match[1]) + (float(match[2]) > 0)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: CELL.search(row)[1])
def test_the_table_of_multi30k_is_what_was_measured(row: str) -> None:
    match = CELL.search(row)
    assert match
    found: dict[str, Any] = json.loads((RESULTS / match[1]).read_text("utf-8"))
    (scores,) = found["evaluations"].values()
    figures = [
        f"{scores[name][key]:.1f}"
        for name in ("test_2016_flickr", "test_2017_flickr")
        for key in ("bleu_lowercased", "bleu_moses_lowercased")
    ]
    recipe, direction, steps, minutes, *quoted, _ = [cell.strip() for cell in row.split("|")[1:-1]]
    assert found["command"][1:3] == ["train", recipe.strip("`")]
    turned = "data.source_language=fr" in found["command"]
    assert direction == ("fr → en" if turned else "en → fr")
    assert steps == f"{found['last_train']['step']:,}"
    assert minutes == str(wall_minutes(found["log"]))
    assert quoted == figures


def test_attention_beats_none_and_the_transformer_beats_both() -> None:
    measured = {
        name: json.loads((RESULTS / f"multi30k-{name}.json").read_text("utf-8"))
        for name in ("rnn", "rnn-attention", "transformer-tiny")
    }
    assert len(ROWS) >= len(measured)
    scores = [each["test"]["bleu"] for each in measured.values()]
    assert scores == sorted(scores)
    assert all(wall_minutes(each["log"]) <= 45 for each in measured.values())


def test_the_tiny_transformer_comes_within_a_point_of_its_paper() -> None:
    """61.8 on test_2016 by the paper's own protocol (Wu et al., 2021), in two hours at most."""
    found = json.loads((RESULTS / "multi30k-transformer-tiny-two-hours.json").read_text("utf-8"))
    (scores,) = found["evaluations"].values()
    assert scores["test_2016_flickr"]["bleu_moses_lowercased"] >= 61.8 - 1
    assert wall_minutes(found["log"]) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_studies_tells_what_was_measured(name: str) -> None:
    file = EXPLANATION / "studies" / f"{name}.json"
    page = (EXPLANATION / "studies.md").read_text("utf-8")
    found = json.loads(file.read_text("utf-8"))
    assert found["study"] == find_study(name).name
    assert found["claim"] == find_study(name).claim
    assert found["paragraph"] in page
    assert f"](studies/{name}.svg)" in page
    assert file.with_suffix(".svg").exists()
    assert found["command"] == f"headway study {name} --seeds 3"
    assert found["seconds"] <= 900


SPEED = (EXPLANATION / "speed.md").read_text("utf-8")
BENCH = json.loads((RESULTS / "bench.json").read_text("utf-8"))["rows"]


def test_the_table_of_peers_is_what_was_measured() -> None:
    speeds = [row for row in BENCH if "ratio_range" in row]
    memories = [row for row in BENCH if "memory" in row.get("measure", "")]
    for speed, memory in zip(speeds, memories, strict=True):
        assert (speed["case"], speed["peer"]) == (memory["case"], memory["peer"])
        low, high = speed["ratio_range"]
        cells = f"{speed['ratio']:.2f} | {low:.2f}–{high:.2f} | {memory['ratio']:.2f}"
        assert f"| `{speed['case']}` | {speed['peer']} | {cells} |" in SPEED


def test_training_is_as_fast_as_it_should_be_beside_its_peer() -> None:
    """Target tokens a second against torch.nn.Transformer written the ordinary way."""
    first, memory = BENCH[:2]
    assert first["case"] == "train-torch"
    assert first["ratio"] >= 2.5
    assert memory["ratio"] <= 1.25
    assert all(row.get("agrees", True) for row in BENCH)


def test_the_profile_of_a_step_is_what_was_measured() -> None:
    found = json.loads((RESULTS / "profile.json").read_text("utf-8"))["profile"]
    for cells in (
        [f"{found[dtype]['milliseconds']['matrix products']:,.0f}" for dtype in found],
        [f"{found[dtype]['milliseconds_a_step']:,.0f}" for dtype in found],
    ):
        assert f"| {' | '.join(cells)} |" in SPEED


def test_the_page_of_prompting_tells_what_was_measured() -> None:
    page = (ROOT / "docs" / "how-to" / "prompting.md").read_text("utf-8")
    found = json.loads((RESULTS / "prompting-smollm2.json").read_text("utf-8"))
    for task in ("sst2", "facts"):
        points = [point["accuracy"] for point in found[task]["points"]]
        shown = [f"{p['percent']:.1f} ({p['low']:.1f}–{p['high']:.1f})" for p in points]
        assert f"| {task} | {found[task]['questions']} | {' | '.join(shown)} |" in page
        assert points[0]["low"] > points[0]["chance"]  # zero shot, above chance
        assert [point["shots"] for point in found[task]["points"]] == [0, 1, 4, 16]
        assert [len(point["draws"]) for point in found[task]["points"]] == [1, 5, 5, 5]
    harness = found["harness"]
    assert f"at most {harness['largest_difference']:.6f} nats" in page
    assert harness["largest_difference"] <= 1e-4
    assert harness["requests"] == harness["same_greedy"] == 200


def test_the_small_language_model_of_code_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "how-to" / "pretraining.md").read_text("utf-8")
    found = json.loads((RESULTS / "lm-stdlib.json").read_text("utf-8"))
    assert f"{found['test']['bits_per_byte']:.2f} bits per byte" in page
    assert found["test"]["bits_per_byte"] < 2.0
    assert found["training"]["seconds"] <= 600
    greedy, drawn = found["completions"].values()
    assert f"{100 * greedy['parse']:.0f} parse as Python ({100 * drawn['parse']:.0f}" in page
    assert greedy["parse"] > 0.5
    assert drawn["parse"] > 0.5


def test_a_real_encoder_is_what_it_is_elsewhere() -> None:
    page = (ROOT / "docs" / "how-to" / "models.md").read_text("utf-8")
    found = json.loads((RESULTS / "real-encoder.json").read_text("utf-8"))
    assert f"to {found['largest_difference']:.1e} (" in page.replace("e-7", "e-07")
    assert found["largest_difference"] < 2e-5
    assert found["ranked_first"] == len(found["rankings"]) == 10


def test_the_table_of_public_trainings_is_what_was_counted() -> None:
    page = (ROOT / "docs" / "how-to" / "plan.md").read_text("utf-8")
    found = json.loads((RESULTS / "public-runs.json").read_text("utf-8"))
    for row in found["rows"]:
        error = f"{100 * row['error']:+.0f} %" if row["calibrated_on"] else "calibrated"
        shares = f"{100 * row['utilisation']:.0f} % | {100 * row['utilisation_6nd']:.0f} %"
        hours = f"{row['device_hours']:,.0f} | {shares} | {row['forecast_hours']:,.0f} | {error} |"
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {row['run']}, ")]
        assert line.endswith(f" | {hours}")
    low, likely, high = (f"{100 * share:.0f}" for share in found["utilisation"])
    assert f"this is {low} to {high} %, likely {likely} %" in page
    assert f"price is {found['rows'][-1]['forecast_usd']:,.0f}" in page


def test_the_law_of_chinchillas_runs_is_what_was_fitted() -> None:
    """Within ten seconds, and the same from whichever seed the draws are."""
    page = (ROOT / "docs" / "how-to" / "scaling.md").read_text("utf-8")
    fits = json.loads((RESULTS / "scaling-fit.json").read_text("utf-8"))["chinchilla"]
    names = {"E": "E", "A": "A", "B": "B", "alpha": "α", "beta": "β"}
    assert len({fit["seed"] for fit in fits}) == len(fits) >= 3
    assert len({tuple(fit[name] for name in names) for fit in fits}) == 1
    assert all(fit["seconds"] <= 10 for fit in fits)
    assert f"It takes {fits[0]['seconds']:.1f} seconds of one core" in page
    assert f"with {fits[0]['resamples']} draws" in page
    for name, letter in {**names, "size_exponent": "β/(α+β), the exponent of N"}.items():
        digits = {"A": (1, 0), "B": (1, 0), "size_exponent": (3, 3)}.get(name, (4, 3))
        low, high = (f"{end:.{digits[1]}f}" for end in fits[0]["intervals"][name])
        cells = f"| {letter} | {fits[0][name]:.{digits[0]}f} | {low} to {high} |"
        assert cells in page


def test_a_model_that_went_there_and_back_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "how-to" / "models.md").read_text("utf-8")
    found = json.loads((RESULTS / "smollm2.json").read_text("utf-8"))
    exact = ("on the file", "on the exported folder", "prompts as text", "on the exported f32")
    compared: dict[str, Any] = found["compared"]
    cut = [each for name, each in compared.items() if name.startswith("hard texts that llama.cpp")]
    whole = [each for name, each in compared.items() if name.endswith(exact)]
    assert len(cut) == 3
    assert len(whole) == 5
    assert all(each["same"] == each["of"] for each in [*cut, *whole])
    assert all(each["same_with_specials_read"] == each["of"] == 10_000 for each in cut)
    assert "Paris" in found["chat"]["assistant"]
    (of,) = {each["of"] for each in whole}
    assert f"for {of} prompts" in page
    assert f"the same {found['tokens']} greedy tokens" in page
    f16, q8 = (compared[f"headway on the exported {kind}"]["same"] for kind in ("f16", "q8_0"))
    assert f"`f16` keeps {f16} of the {of}, `q8_0` {q8}." in page


def test_mutated_files_are_refused_as_was_measured() -> None:
    page = (ROOT / "docs" / "how-to" / "models.md").read_text("utf-8")
    found = json.loads((RESULTS / "fuzz_weights.json").read_text("utf-8"))
    cases = list(found["cases"].values())
    refused = sum(case["files"]["refused"] for case in cases)
    assert sum(sum(case["files"].values()) for case in cases) == found["files"] >= 100_000
    assert f"Of {found['files']:,} mutated" in page
    assert f"{refused:,} were refused with one message each" in page
    assert all(case["files"].keys() <= {"refused", "opened"} for case in cases)
    assert not any(case["bad"] for case in cases)
    assert max(max(case["most_memory_over_size"].values()) for case in cases) < 2


def test_what_pretraining_is_worth_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "how-to" / "pretraining.md").read_text("utf-8")
    found = json.loads((RESULTS / "pretraining.json").read_text("utf-8"))
    few = found["tasks"]["sst2-1000"]
    assert few["pretrained"]["mean"]["accuracy"] > few["scratch"]["mean"]["accuracy"]
    rows = {"sst2-1000": "1,000 of SST-2", "sst2": "of SST-2", "mrpc": "of MRPC"}
    for task, labels in rows.items():
        arms = [found["tasks"][task][arm] for arm in ("scratch", "pretrained")]
        assert all(len(arm["seeds"]) == 3 for arm in arms)
        each = [(arm["mean"]["accuracy"], arm["deviation"]["accuracy"]) for arm in arms]
        cells = " | ".join(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in each)
        assert f"{labels} | {cells} |" in page
    quickest = min(run["minutes"] for run in found["pretraining"].values())  # one shared its core
    assert f"{quickest} minutes on one core" in page


GLUE_SCORES = {
    "mrpc": ("MRPC", "F1", "f1"),
    "cola": ("CoLA", "Matthews correlation", "matthews"),
}


@pytest.mark.parametrize("task", GLUE_SCORES)
def test_the_table_of_glue_is_what_was_measured(task: str) -> None:
    page = (ROOT / "docs" / "how-to" / "fine-tuning.md").read_text("utf-8")
    found = json.loads((RESULTS / f"glue-{task}.json").read_text("utf-8"))["summary"]
    name, score, key = GLUE_SCORES[task]
    sides = [found[who][key] for who in ("headway", "trainer")]
    assert all(len(side) == 3 for side in sides)
    cells = " | ".join(", ".join(f"{each:.1f}" for each in side) for side in sides)
    assert f"| {name} | {score} | {cells} | {found['train_s_ratio']:.2f} |" in page
    assert found["train_s_ratio"] <= 0.6
