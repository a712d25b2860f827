"""A language model from a recipe to a run: it learns, goes on exactly, continues, is judged."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.base.errors import UserError
from headway.checkpoint.run import RunFolder
from headway.runs.language_model import LanguageModel

COUNTED = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GREEDY = headway.Sampling(temperature=0.0, max_new_tokens=12)


def counting(draw: random.Random) -> str:
    """Numbers from somewhere on, in their order."""
    first = draw.randrange(len(COUNTED) - 2)
    return " ".join(COUNTED[first:]) + "\n"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, draw = tmp_path_factory.mktemp("counting"), random.Random(1)
    for part, n in (("train", 300), ("valid", 30)):
        text = "".join(counting(draw) for _ in range(n))
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")
    (folder / "letters.txt").write_text("a b c d e f\n" * 40, encoding="utf-8")

    def lines(name: str, **more: float) -> dict[str, Any]:
        return {"files": str(folder / f"{name}.txt"), "document": "line", **more}

    return {
        "data": {
            "kind": "documents",
            "length": 24,
            "duplicates": "keep",
            "train": {
                "numbers": lines("train", weight=3.0),
                "letters": lines("letters", weight=1.0),
            },
            "valid": {"numbers": lines("valid"), "letters": lines("letters")},
        },
        "tokenizer": {"kind": "word", "size": 60},
        "model": {
            "kind": "decoder",
            "n_layers": 1,
            "d_model": 32,
            "d_feed_forward": 64,
            "n_heads": 2,
            "n_kv_heads": 1,
            "positions": "rotary",
            "order": "pre",
            "max_length": 32,
            "dropout": 0.05,
        },
        "train": {
            "steps": 120,
            "batch_tokens": 240,
            "learning_rate": 1e-2,
            "warmup": 10,
            "dtype": "float32",
            "log_every": 20,
            "evaluate_every": 60,
            "save_every": 40,
        },
        "evaluate": {"rows": 20, "samples": 2, "prompt_tokens": 3, "new_tokens": 8},
    }


@pytest.fixture(scope="module")
def run(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("language") / "run"
    headway.train(recipe, out=path)
    return path


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in RunFolder(run).metrics.read() if each["kind"] == kind]


def test_it_learns_to_count(run: Path) -> None:
    last = records(run, "test")[0]
    assert last["part"] == "valid"
    assert last["nll"] < 0.5 < 1.5 < records(run, "train")[0]["nll"]
    model = headway.load(run, device="cpu")
    assert isinstance(model, LanguageModel)
    (found,) = model.generate(["three four five"], GREEDY)
    assert found.text.split() == COUNTED[5:]
    assert found.reason == "end"


def test_bits_are_told_a_byte_and_by_source(run: Path) -> None:
    """What a byte of text costs is all that its tokens cost, divided by the bytes."""
    last = records(run, "test")[0]
    n_bytes = sum(
        len(Path(source["files"]).read_bytes())
        for source in RunFolder(run).recipe()["data"]["valid"].values()
    )
    bits = last["nll"] * last["tokens"] / math.log(2)
    assert last["bits_per_byte"] == pytest.approx(bits / n_bytes)
    assert last["nll_letters"] < last["nll_numbers"]  # where to begin is drawn only there
    assert {"bits_per_byte_numbers", "bits_per_byte_letters"} <= last.keys()


def test_the_report_of_the_data_says_shares_and_passes(run: Path) -> None:
    data = json.loads((run / "data.json").read_text(encoding="utf-8"))
    assert [data[name]["share"] for name in ("numbers", "letters")] == [0.75, 0.25]
    read = 120 * 240
    for each in data.values():
        assert each["passes"] == pytest.approx(each["share"] * read / each["tokens"], abs=1e-3)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "bits per byte" in page


def test_what_the_tokeniser_does_not_know_is_told(
    recipe: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown token counts as predicted where it is guessed: the figures flatter."""
    (tmp_path / "strange.txt").write_text("one zwei three vier\n" * 9, encoding="utf-8")
    data = json.loads(json.dumps(recipe["data"]))
    data["valid"]["numbers"]["files"] = str(tmp_path / "strange.txt")
    headway.train({**recipe, "data": data}, out=tmp_path / "run", **{"train.steps": 1})
    said = capsys.readouterr().err
    assert "valid.numbers: 40.0% of the tokens are unknown, such as 'zwei', 'vier': bits p" in said
    assert "bits per byte and perplexity are too low then" in said
    assert said.count("are unknown") == 1
    assert (
        json.loads((tmp_path / "run" / "data.json").read_text("utf-8"))["numbers"]["unknown"] == 0
    )
    assert records(tmp_path / "run", "valid")[0]["bits_per_byte_numbers"] > 0


def test_what_stops_goes_on_exactly(
    recipe: dict[str, Any], goes_on_exactly: Callable[..., None]
) -> None:
    """A mixture, dropout on."""
    goes_on_exactly(recipe, steps=11, save_every=4, evaluate_every=6)


def test_what_is_shown_begins_with_one_document(recipe: dict[str, Any], tmp_path: Path) -> None:
    """Also where that is shorter than the beginnings that are wanted."""
    evaluate = {**recipe["evaluate"], "prompt_tokens": 11, "samples": 9}
    headway.train({**recipe, "evaluate": evaluate}, out=tmp_path / "run", train={"steps": 1})
    shown = [each["beginning"].split() for each in records(tmp_path / "run", "test")[0]["passages"]]
    assert len(shown) == 9
    for words in shown:
        first = COUNTED.index(words[0])
        assert words == COUNTED[first:]


def test_it_is_judged_again_alike(run: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    said = cli("evaluate", run, "--device", "cpu", "--json", tmp_path / "found.json")
    assert said.code == 0, said
    found, logged = (
        json.loads((tmp_path / "found.json").read_text("utf-8")),
        records(run, "test")[0],
    )
    assert found["part"] == "valid"
    hashes = RunFolder(run).data_hashes()
    assert found["data"] == {key: hashes[key] for key in hashes if key.startswith("valid.")}
    assert (found["model"], found["settings"]["rows"]) == (str(run), 20)
    for key in ("nll", "perplexity", "bits_per_byte", "tokens", "nll_letters"):
        assert found[key] == pytest.approx(logged[key], rel=1e-5)
    assert said.out.decode().startswith("valid: perplexity ")


def test_the_verbs_take_it(run: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    words = ["generate", run, "--prompt", "one two", "--greedy", "--json", tmp_path / "a.json"]
    said = cli(*words)
    assert said.code == 0, said
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert found.keys() >= {"text", "ids", "reason"}
    assert found["text"].split()[0] == "three"
    told = cli("info", run).out.decode()
    assert "documents: numbers, letters" in told
    assert "bits_per_byte" in told
    assert "a language model does not translate" in cli("translate", run, stdin=b"one\n").error
    letters = ["generate", run, "--prompt", "one ten", "--prompt", "zwei", "--greedy"]
    said = cli(*letters).err
    assert "unknown to the tokeniser: 2 of 3 tokens, such as 'ten', 'zwei' (prompts 1, 2)" in said
    assert "unknown" not in cli(*words).err


@pytest.mark.parametrize("most", [2, 3, 9])
def test_samples_fit_into_a_short_context(
    most: int, recipe: dict[str, Any], tmp_path: Path
) -> None:
    """Whatever the settings; the run died at its first evaluation."""
    table = {**recipe, "data": {**recipe["data"], "length": None}, "evaluate": {"rows": 20}}
    table["tokenizer"] = {"kind": "bpe", "size": 300}
    few = {"train.steps": 1, "model.max_length": most}
    headway.train(table, out=tmp_path / "run", **few)
    assert len(records(tmp_path / "run", "valid")[0]["passages"]) == 3


def test_too_few_tokens_and_too_long_rows_are_told(recipe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="fewer than one batch of 99,999"):
        headway.train(recipe, out=tmp_path / "run", **{"train.batch_tokens": 99_999})
    with pytest.raises(UserError, match=r"do not fit into model\.max_length"):
        headway.train(recipe, out=tmp_path / "run", **{"data.length": 64})
    with pytest.raises(UserError, match=r"train.batch_tokens = 4 has no room for a row of"):
        headway.train(recipe, out=tmp_path / "run", **{"train.batch_tokens": 4})
    with pytest.raises(UserError, match=r"either all sources of data\.train have"):
        headway.train(recipe, out=tmp_path / "run", **{"data.train.third.files": "x"})
    assert not (tmp_path / "run").exists()
