"""headway tokenizer train, encode, decode, inspect; and a recipe that names a tokenizer.json."""

from __future__ import annotations

import gzip
import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

import headway
from headway.cli import tokenizer as verbs
from headway.settings.tokenizer import PairTokenizerSettings
from headway.tokens.tokenizer import Tokenizer
from headway.tokens.training import train_tokenizer

Cli = Callable[..., Any]
Run = Callable[[str], Path]
# What other tools take for line ends, a byte-order mark inside, text like a special token
LINES = ["le chat  dort", "", "L'été\u2028 a\x85b\x0c", "x\ufeffy </s> 😀\t", "\u0000", "fin\rfin"]


@pytest.fixture
def bpe(toy: Path, cli: Cli, tmp_path: Path) -> Path:
    out = tmp_path / "deep" / "tokenizer.json"
    said = cli(
        "tokenizer", "train", toy / "train.fr", toy / "train.en", "--size", 370, "--out", out
    )
    assert said.code == 0, said.err
    assert said.out.decode() == f"{out}\n"
    assert f"370 ids; next: headway tokenizer inspect {out} {toy}/train.fr" in said.err
    return out


def test_train_is_what_a_recipe_would_learn(toy: Path, bpe: Path) -> None:
    texts = [
        line
        for name in ("train.fr", "train.en")
        for line in (toy / name).read_text(encoding="utf-8").splitlines()
    ]
    made = train_tokenizer(PairTokenizerSettings(size=370), texts)
    assert bpe.read_text(encoding="utf-8") == made.to_json()


def test_train_takes_the_keys_of_a_recipe(cli: Cli, tmp_path: Path) -> None:
    defaults = inspect.signature(verbs.train).parameters
    of_training = {"joint", "file", "target_file", "dropout"}
    for key in PairTokenizerSettings.model_fields.keys() - of_training:
        assert defaults[key].default == PairTokenizerSettings.model_fields[key].default
    text = tmp_path / "text.gz"
    text.write_bytes(gzip.compress("\ufeffÉtÉ été Un\r\nun été\n".encode()))
    words = ("tokenizer", "train", text, "--out", tmp_path / "a.json", "--kind", "word")
    said = cli(*words, "--size", 6, "--min-count", 2, "--lowercase", "--strip-accents")
    assert said.code == 0, said.err
    made = Tokenizer.from_json((tmp_path / "a.json").read_text(encoding="utf-8"), where="x")
    assert made.pieces(range(4, len(made))) == ["▁ete", "▁un"]
    out = tmp_path / "b.json"
    assert cli("tokenizer", "train", text, "--out", out, "--rule", "gpt2").code == 0
    texts = ["ÉtÉ été Un", "un été"]
    of_gpt2 = train_tokenizer(PairTokenizerSettings(rule="gpt2"), texts).to_json()
    assert out.read_text(encoding="utf-8") == of_gpt2
    assert of_gpt2 != train_tokenizer(PairTokenizerSettings(), texts).to_json()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_decode_is_the_inverse_of_encode(end: bytes, bpe: Path, cli: Cli) -> None:
    """C1, E1: line i to line i, whatever is in it."""
    data = (end or b"\n").join(line.encode() for line in LINES) + end
    ids = cli("tokenizer", "encode", bpe, stdin=data)
    assert ids.code == 0, ids.err
    made = Tokenizer.from_json(bpe.read_text(encoding="utf-8"), where="x")
    rows = [[int(id) for id in line.split()] for line in ids.out.decode().splitlines()]
    assert rows == made.encode(LINES)
    texts = cli("tokenizer", "decode", bpe, stdin=ids.out)
    assert texts.out.decode("utf-8").split("\n") == [*LINES, ""]


def test_a_line_end_in_a_text_does_not_shift_lines(bpe: Path, cli: Cli) -> None:
    made = Tokenizer.from_json(bpe.read_text(encoding="utf-8"), where="x")
    ids = " ".join(map(str, made.encode(["a\nb"])[0]))
    assert cli("tokenizer", "decode", bpe, stdin=f"{ids}\n\n{ids}".encode()).out == b"a b\n\na b\n"


def test_many_lines_pass_in_order(bpe: Path, cli: Cli) -> None:
    data = "".join(f"un chat {number}\n" for number in range(2500)).encode()
    ids = cli("tokenizer", "encode", bpe, stdin=data).out
    assert cli("tokenizer", "decode", bpe, stdin=ids).out == data


def test_pieces(bpe: Path, cli: Cli) -> None:
    said = cli("tokenizer", "encode", bpe, "--pieces", stdin=b"un chat\n\n")
    assert said.out.decode("utf-8") == "un ▁chat </s>\n</s>\n"


def test_inspect_says_how_a_text_is_cut(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("<unk>\nle\nchat\nchien\n", encoding="utf-8")
    (tmp_path / "text").write_text("le chat\n\nété le\n", encoding="utf-8")
    words = ("tokenizer", "inspect", tmp_path / "words.txt", tmp_path / "text")
    said = cli(*words, "--json", tmp_path / "facts.json")
    assert said.code == 0, said.err
    assert f"{tmp_path}/words.txt: added the special token </s> (id 6)" in said.err
    assert said.out.decode("utf-8").splitlines() == [
        "kind            word",
        "ids             7",
        "lossless        no: blanks between pieces are not kept; "
        "what is not in its vocabulary becomes unknown",
        "special tokens  <unk> 0 (unknown), <pad> 4 (padding), <s> 5 (start), </s> 6 (end)",
        "longest tokens  chien 3, chat 2, le 1",
        "",
        "le|chat",
        "",
        "<unk>|le",
        "",
        "lines           3",
        "tokens          4",
        "                3.25 characters a token",
        "                3.75 bytes a token",
        "                1.00 tokens a word (fertility)",
        "unknown         25.00% of the tokens",
        "                'été' 1 times, first in line 3",
        "most used       le 1 (2), <unk> 0 (1), chat 2 (1)",
        "never used      1 ids (33%): chien 3",
    ]
    facts = json.loads((tmp_path / "facts.json").read_text(encoding="utf-8"))
    assert facts["tokenizer"]["size"] == 7
    assert facts["text"]["never_used"] == [3]
    assert facts["text"]["unknown_share"] == 0.25


def test_inspect_colours_pieces_on_a_terminal(
    bpe: Path, toy: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("tokenizer", "inspect", bpe, toy / "test.fr", "--lines", 1)
    plain = cli(*words).out.decode("utf-8").splitlines()[6]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = cli(*words).out.decode("utf-8").splitlines()[6]
    assert "|" in plain
    assert "|" not in coloured
    escapes = coloured.count("\x1b[") // 2
    assert escapes == plain.count("|") + 1
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli(*words).out.decode("utf-8").splitlines()[6] == plain


def test_a_run_has_its_tokenisers(trained: Run, cli: Cli) -> None:
    both, two = trained("transformer"), trained("attention")
    said = cli("tokenizer", "encode", both, "--pieces", stdin=b"un chat\n")
    assert said.out.decode("utf-8") == "un ▁chat </s>\n"
    french, english = (
        cli("tokenizer", "encode", two, "--pieces", "--side", side, stdin=b"chat cat\n")
        for side in ("source", "target")
    )
    assert french.out.decode("utf-8") == "▁chat <unk> </s>\n"
    assert english.out.decode("utf-8") == "<unk> ▁cat </s>\n"
    assert "this run has a tokeniser for each side; give --side source or" in (
        cli("tokenizer", "encode", two).error
    )
    said = cli("tokenizer", "inspect", two, "--side", "left")
    assert "--side: unknown side 'left'; known: source, target" in said.error


@pytest.mark.parametrize(
    ("verb", "stdin", "what"),
    [
        ("encode", b"a\n\xff\n", "standard input:2: not UTF-8: byte 0xff at position 1"),
        ("decode", b"1\n1 x\n", "standard input:2: 'x' is not an id from 0 to 369"),
        ("decode", b"370\n", "standard input:1: '370' is not an id"),
        ("decode", b"-1\n", "standard input:1: '-1' is not an id"),
        ("decode", b"9" * 5000, "999…' is not an id from 0 to 369"),
        ("encode --side source", b"", "--side is for the folder of a run"),
    ],
)
def test_bad_input(verb: str, stdin: bytes, what: str, bpe: Path, cli: Cli) -> None:
    verb, *words = verb.split()
    assert what in cli("tokenizer", verb, bpe, *words, stdin=stdin).error


def test_bad_files_and_settings(toy: Path, bpe: Path, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    broken = tmp_path / "broken"
    broken.write_bytes(b"le\nl\xe9\n")
    half = tmp_path / "half.gz"
    half.write_bytes(gzip.compress(b"le chat\n" * 99)[:-9])
    for file, words, what in (
        (tmp_path / "none", (), f"{tmp_path}/none: there is no such file"),
        (tmp_path, (), f"{tmp_path}: cannot be read: "),
        (broken, (), f"{broken}:2: not UTF-8: byte 0xe9 at position 2"),
        (half, (), f"{half}: cannot be read: "),
        (toy / "train.fr", ("--kind", "bpee"), "headway tokenizer train, kind: input should be"),
        (toy / "train.fr", ("--size", 9), "a vocabulary of 9 is too small for the special"),
    ):
        error = cli("tokenizer", "train", file, *words, "--out", out).error
        assert what in error
        assert "errors =" not in error, "a setting of recipes"
        assert not out.exists()
    for file, what in (
        (tmp_path / "none", f"{tmp_path}/none: there is no such file"),
        (tmp_path, f"{tmp_path}/tokenizer.json: there is no such file"),
    ):
        assert what in cli("tokenizer", "inspect", file).error
    said = cli("tokenizer", "inspect", bpe, tmp_path / "none")
    assert f"{tmp_path}/none: there is no such file" in said.error


def outside() -> str:
    """A word tokeniser that knows toy French and English, of another tool, without specials."""
    words = [*verbs_of_the_toy(), "?"]
    made = Backend(models.WordLevel({word: id for id, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made.to_str()


def verbs_of_the_toy() -> list[str]:
    return sorted({"un", "deux", "chat", "rouge", "one", "two", "cat", "red"})


def test_a_recipe_takes_a_tokeniser_from_elsewhere(
    toy_recipe: Callable[..., dict[str, Any]],
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C13: the run keeps its own copy, so that going on needs neither the file nor the variable."""
    models_of_mine = tmp_path / "models"
    models_of_mine.mkdir()
    (models_of_mine / "a.json").write_text(outside(), encoding="utf-8")
    monkeypatch.setenv("MY_MODELS", str(models_of_mine))
    recipe = toy_recipe("plain", steps=2, evaluate_every=2, save_every=2)
    recipe["tokenizer"] = {"file": "${MY_MODELS}/a.json"}
    run = tmp_path / "run"
    headway.train(recipe, out=run, device="cpu")
    text = (run / "tokenizer.json").read_text(encoding="utf-8")
    made = Tokenizer.from_json(text, where="x")
    assert made.pieces(range(len(made))) == [
        *verbs_of_the_toy(), "?", "<pad>", "<s>", "</s>",
    ]  # fmt: skip
    assert (json.loads((run / "config.json").read_text(encoding="utf-8")))["n_source"] == len(made)
    assert 'file = "${MY_MODELS}/a.json"' in (run / "recipe.toml").read_text(encoding="utf-8")
    shutil.rmtree(models_of_mine)
    monkeypatch.delenv("MY_MODELS")
    said = cli("train", "--resume", "--out", run, "--set", "train.steps=3")
    assert said.code == 0, said.err
    assert (run / "tokenizer.json").read_text(encoding="utf-8") == text
    assert cli("translate", run, stdin=b"un chat\n").code == 0


def test_a_file_for_each_side(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from headway.runs.prepare import prepare
    from headway.settings.recipe import load_recipe

    (tmp_path / "a.json").write_text(outside(), encoding="utf-8")
    (tmp_path / "b.txt").write_text("one\ntwo\n", encoding="utf-8")
    recipe = toy_recipe("plain")
    recipe["tokenizer"] = {
        "file": str(tmp_path / "a.json"), "target_file": str(tmp_path / "b.txt"), "joint": False,
    }  # fmt: skip
    made = prepare(load_recipe(recipe)).tokenizers
    assert (len(made.source), len(made.target)) == (len(verbs_of_the_toy()) + 4, 6)
    told = capfd.readouterr().err
    assert f"{tmp_path}/a.json: added the special token <pad> (id 9)" in told
    assert f"{tmp_path}/b.txt: each text now ends with </s>" in told
