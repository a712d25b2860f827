from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import headway
from headway.checkpoint.run import RunFolder
from headway.settings.recipe import load_recipe, shipped_recipes

Cli = Callable[..., Any]
Run = Callable[[str], Path]
KEYS = {
    *("n", "bleu", "chrf", "exact_match", "signature", "chrf_signature", "by_length"),
    *("nll", "perplexity", "token_accuracy"),
}


def test_train_says_what_it_made_and_what_comes_next(
    toy_recipe: Callable[..., dict[str, Any]], cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(load_recipe(toy_recipe("plain")).to_toml(), encoding="utf-8")
    out = tmp_path / "run"
    words = ("--set", "train.steps=3", "--set", "train.evaluate_every=2", "--out", out)
    said = cli("train", path, *words, "--device", "cpu")
    assert said.code == 0, said.err
    first, report, after = said.out.decode("utf-8").splitlines()
    assert first.startswith("Translator(fr → en, recurrent, ")
    assert report == f"{out}/report.html"
    assert after == f"next: headway translate {out} < FILE"
    assert "400 training pairs, 2,391 target tokens" in said.err
    told = [line.partition(":")[0] for line in said.err.splitlines()]
    assert [name for name in told if name.startswith(("step", "test"))] == [
        *("step 2", "step 3", "test")
    ]
    assert cli("translate", out, stdin=b"un\n").code == 0
    assert load_recipe(out / "recipe.toml").train.steps == 3
    more = cli("train", "--resume", "--out", out, "--set", "train.steps=4")
    assert more.code == 0
    assert f"resumed {out} after step 3 of 4" in more.err


def test_the_pairs_recipe_takes_two_files(cli: Cli, toy: Path, tmp_path: Path) -> None:
    files = {
        side: toy / f"train.{language}" for side, language in (("source", "fr"), ("target", "en"))
    }
    small = {"train.steps": 1, "train.batch_tokens": 256, "train.dtype": "float32"}
    small |= {"tokenizer.size": 300, "model.d_model": 8, "model.d_feed_forward": 8}
    small |= {"model.n_heads": 2}
    settings = small | {f"data.train.{side}": path for side, path in files.items()}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    said = cli("train", "pairs", *words, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    assert headway.load(tmp_path / "run").recipe.data.train.source == str(files["source"])


def test_evaluate_on_the_test_part(trained: Run, toy: Path, cli: Cli, tmp_path: Path) -> None:
    said = cli("evaluate", trained("attention"), "--json", tmp_path / "a.json", "--beam", 1)
    assert said.code == 0
    scores = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert set(scores) == KEYS | {"translations", "model", "pairs", "data", "beam"}
    assert (scores["model"], scores["beam"]) == (str(trained("attention")), 1)
    assert scores["data"] == RunFolder(trained("attention")).data_hashes()["test"]
    sources, references = (
        (toy / f"test.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("fr", "en")
    )
    made = headway.load(trained("attention"), device="cpu").translate(sources, beam=1)
    assert scores["translations"] == made
    assert scores["n"] == 40
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(made, [references]).score)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(made, [references]).score)
    hits = sum(map(str.__eq__, made, references))
    assert scores["exact_match"] == pytest.approx(100 * hits / 40)
    assert 0 < hits < 40
    assert scores["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    parts = scores["by_length"]
    assert [(part["low"], part["high"]) for part in parts] == [(1, 8), (9, 16)]
    assert sum(part["n"] for part in parts) == 40
    shown = said.out.decode("utf-8")
    assert f"BLEU            {scores['bleu']:6.2f}   {scores['signature']}" in shown
    assert f"exact match     {scores['exact_match']:6.2f} %" in shown
    assert f"perplexity      {scores['perplexity']:6.2f}" in shown
    assert "1–8 words" in shown


def test_evaluate_on_other_files(trained: Run, toy: Path, cli: Cli, tmp_path: Path) -> None:
    files = (toy / "valid.fr", toy / "valid.en")
    said = cli("evaluate", trained("plain"), "--data", *files, "--json", "/dev/stdout")
    assert f"20 pairs from {files[0]}, {files[1]}" in said.out.decode("utf-8")
    cli("evaluate", trained("plain"), "--data", *files, "--json", tmp_path / "deep" / "a.json")
    assert json.loads((tmp_path / "deep" / "a.json").read_text(encoding="utf-8"))["n"] == 20
    said = cli("evaluate", trained("plain"), "--data", *files, "--json", tmp_path)
    assert f"{tmp_path}: cannot write" in said.error
    assert b"perplexity" in said.out, "what took long is not lost"


def test_a_long_line_is_told_of_once(trained: Run, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fr").write_text("un\n" + "chat " * 100 + "\n", encoding="utf-8")
    (tmp_path / "en").write_text("one\ncat\n", encoding="utf-8")
    said = cli("evaluate", trained("attention"), "--data", tmp_path / "fr", tmp_path / "en")
    assert said.err.count("was cut to the 64 that the model can read") == 1
    assert "warning: line 2 has " in said.err


@pytest.mark.parametrize("kind", ["transformer", "attention"])
def test_attention_draws_pictures(kind: str, trained: Run, cli: Cli, tmp_path: Path) -> None:
    words = ("attention", trained(kind), "--source", "un chat vert", "--out")
    png, svg = tmp_path / "a.png", tmp_path / "deep" / "a.svg"
    assert cli(*words, png, "--target", "one green cat").out.decode() == f"{png}\n"
    assert png.read_bytes().startswith(b"\x89PNG")
    said = cli(*words, svg, "--layer", 0, "--head", 0)
    assert said.code == 0, said.err
    text = svg.read_text(encoding="utf-8")
    assert text.startswith("<")
    assert "svg" in text
    assert cli(*words, tmp_path / "b.svg", "--layer", 9).code == 2
    empty = cli("attention", trained(kind), "--source", "", "--out", tmp_path / "c.png")
    assert empty.code == 0, empty.err


def test_info_describes_a_run(trained: Run, cli: Cli) -> None:
    said = cli("info", trained("attention"))
    lines = said.out.decode("utf-8").splitlines()
    assert "languages      fr → en" in lines
    assert not any(line.startswith("recipe") for line in lines), "it has no description"
    assert "trained        150 of 150 steps in float32" in lines
    assert any(line.startswith("test           bleu ") for line in lines)
    assert any(line.startswith("model          recurrent: ") for line in lines)
    assert any(re.fullmatch(r"best weights   of step \d+", line) for line in lines)
    assert said.err == ""


def test_recipes_are_listed_and_printed(cli: Cli, tmp_path: Path) -> None:
    listed = cli("recipes").out.decode("utf-8").splitlines()
    assert [line.split()[0] for line in listed] == list(shipped_recipes())
    assert {"cldr/rnn", "cldr/rnn-attention", "cldr/transformer", "pairs"} <= set(shipped_recipes())
    printed = cli("recipes", "cldr/rnn").out
    (tmp_path / "mine.toml").write_bytes(printed)
    assert load_recipe(tmp_path / "mine.toml") == load_recipe("cldr/rnn")


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version") == (0, f"headway {headway.__version__}\n".encode(), "")
    said = cli("train", "-h")
    assert said.code == 0
    assert b"Example: headway train cldr/transformer" in said.out


def test_help_names_values_in_capitals_and_extras_in_full(cli: Cli) -> None:
    told = (cli("train", "-h").out + cli("evaluate", "-h").out).decode()
    assert "headway[eval]" in told  # markup would take it for a style
    assert all(
        re.search(rf" {named} ", told) for named in ("RECIPE", "--device +NAME", "--shots +N")
    )
    assert not re.search("--resume +<", told)


def test_evaluate_tells_what_it_left_out(trained: Run, cli: Cli, tmp_path: Path) -> None:
    source, target = tmp_path / "in.fr", tmp_path / "in.en"
    source.write_bytes(b"un chat\n\nun\x0cchien\n")
    target.write_bytes(b"one cat\none dog\none dog\n")
    said = cli("evaluate", trained("transformer"), "--data", source, target)
    assert said.code == 0, said.err
    assert said.out.decode().startswith("2 pairs from ")
    assert "1 pairs with an empty side left out" in said.err
    assert f"{source}: 1 lines hold odd separators or NUL (line 3)" in said.err


def test_a_path_that_the_system_refuses_is_one_message(cli: Cli) -> None:
    said = cli("info", "x" * 5000)
    assert said.error.endswith("File name too long")


def test_the_validation_part_where_there_is_no_test_part(
    toy_recipe: Callable[..., dict[str, Any]], cli: Cli, tmp_path: Path
) -> None:
    recipe = toy_recipe("plain", steps=1)
    del recipe["data"]["test"]
    headway.train(recipe, out=tmp_path / "run")
    said = cli("evaluate", tmp_path / "run", "--json", tmp_path / "scores.json")
    assert said.code == 0, said
    assert b"20 pairs from" in said.out
    told = cli("info", tmp_path / "run").out.decode()
    assert "valid, best weights" in told
    assert "\ntest " not in told
