"""What classify, embed, fill and generate read from standard input, and what they may not write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.runs.classifier import Label
from headway.runs.filler import Filled
from headway.runs.generated import Generated

Cli = Callable[..., Any]


class Asked:
    """Stands for a model of any kind, and keeps what it was asked."""

    def __init__(self) -> None:
        self.texts: list[Any] = []
        self.numbers: list[int] = []
        self.labels: list[str] | None = ["a", "b"]
        self.tokenizer, self.rounding = self, None

    def cut(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
        return (([], []) for _ in texts)

    def classify(
        self, texts: Sequence[str], seconds: Sequence[str] | None, *, numbers: Sequence[int]
    ) -> list[Label]:
        self.texts += texts if seconds is None else zip(texts, seconds, strict=True)
        self.numbers = list(numbers)
        return [Label("a", 0.5) for _ in texts]

    def estimate(
        self, texts: Sequence[str], seconds: Sequence[str] | None, *, numbers: Sequence[int]
    ) -> list[float]:
        return [each.probability for each in self.classify(texts, seconds, numbers=numbers)]

    def embed(self, texts: Sequence[str], *, numbers: Sequence[int] | None = None) -> Tensor:
        self.texts += zip(numbers or range(1, len(texts) + 1), texts, strict=True)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    def similarities(self, _query: str, vectors: Tensor) -> list[float]:
        return vectors[:, 0].tolist()

    def fill(self, texts: Sequence[str], _top: int, *, numbers: Sequence[int]) -> list[Filled]:
        self.texts += texts
        self.numbers = list(numbers)
        return [Filled(text, []) for text in texts]

    def generate(self, prompts: Sequence[str], *_: Any, **__: Any) -> list[Generated]:
        self.texts += prompts
        return [Generated("!", [], "end", 0.0) for _ in prompts]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    for kind in ("classifier", "embedder", "filler", "language_model"):
        monkeypatch.setattr(f"headway.runs.open_model.open_{kind}", lambda *_, **__: made)
    return made


@pytest.mark.parametrize("verb", ["classify", "embed", "fill"])
def test_no_line_in_is_no_result_out(verb: str, model: Asked, cli: Cli, tmp_path: Path) -> None:
    said = cli(verb, "m", "--json", tmp_path / "found.json", stdin=b"")
    assert (said.code, said.out) == (0, b"")
    assert model.texts == []
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found == ({"texts": [], "embeddings": []} if verb == "embed" else [])


def test_an_empty_line_has_no_label(model: Asked, cli: Cli, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    said = cli("classify", "m", "--json", found, stdin=b"one\n\n \t\ntwo\n")
    assert said.out == b"a\t0.5000\n\n\na\t0.5000\n"
    assert model.texts == ["one", "two"]
    label = {"label": "a", "probability": 0.5}
    assert json.loads(found.read_text(encoding="utf-8")) == [label, None, None, label]
    model.texts, model.labels = [], None
    said = cli("classify", "m", "--second", "--json", found, stdin=b"one\ttwo\n\n")
    assert (said.out, model.texts) == (b"0.5000\n\n", [("one", "two")])
    assert json.loads(found.read_text(encoding="utf-8")) == [{"value": 0.5}, None]
    said = cli("classify", "m", "--second", stdin=b"one\ttwo\n\nthree\n")
    assert "standard input:3: there is no tab" in said.error


def test_an_empty_line_has_no_vector_and_no_rank(model: Asked, cli: Cli, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    said = cli("embed", "m", "--query", "x", "--json", found, stdin=b"\none\n\nthree\n")
    assert said.out == b"5.0000\tthree\n3.0000\tone\n"
    assert model.texts == [(2, "one"), (4, "three")]
    assert json.loads(found.read_text(encoding="utf-8")) == {
        "texts": ["", "one", "", "three"],
        "embeddings": [None, [3.0, 1.0], None, [5.0, 1.0]],
    }


@pytest.mark.parametrize("verb", ["classify", "embed", "fill", "generate"])
def test_input_is_utf8_whatever_the_terminal_s(
    verb: str, model: Asked, cli: Cli, tmp_path: Path
) -> None:
    """A byte-order mark is not text, and only LF and CR LF end a line."""
    words = (verb, "m", "--json", tmp_path / "found.json")
    given = b"\xef\xbb\xbf\xc3\xa9 [MASK]\r\na\xe2\x80\xa8\rb\n"
    cli(*words, stdin=given, encoding="latin-1")
    lines = ["é [MASK]", "a\u2028\rb"]
    wanted = {"embed": list(enumerate(lines, 1)), "generate": ["\n".join(lines)]}
    assert model.texts == wanted.get(verb, lines)
    said = cli(*words, stdin=b"one\n\xff\n")
    assert "standard input:2: not UTF-8: byte 0xff at position 1" in said.error


def test_one_line_end_is_not_part_of_the_prompt(model: Asked, cli: Cli) -> None:
    for given in (b"a\n\n", b"a", b""):
        assert cli("generate", "m", "--greedy", stdin=given).code == 0
    assert model.texts == ["a\n", "a", ""]


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "--prompt", "a"),
        ("classify",),
        ("embed",),
        ("fill", "--text", "a"),
        ("prompt", "--file", "rows.jsonl"),
        ("evaluate",),
        ("evaluate", "--tasks", "a"),
        ("evaluate", "--task", "glue/sst2"),
        ("info",),
    ],
)
@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "model.safetensors"])
def test_no_result_takes_the_place_of_a_model_s_file(
    words: Sequence[str], name: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / name).write_text("mine", encoding="utf-8")
    verb, *more = words
    said = cli(verb, tmp_path, *more, "--json", tmp_path / name)
    assert f"{tmp_path / name}: this file has another part in the command" in said.error
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("option", ["--json", "--html", "--recipe"])
def test_a_plan_does_not_take_the_place_of_its_machines(
    option: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text("x = 1\n", encoding="utf-8")
    said = cli("plan", "--hardware", tmp_path / "mine.toml", option, tmp_path / "mine.toml")
    assert "would be overwritten" in said.error


def test_results_of_before_may_be_replaced(model: Asked, cli: Cli, tmp_path: Path) -> None:
    for _ in range(2):
        said = cli("classify", tmp_path, "--json", tmp_path / "found.json", stdin=b"one\n")
        assert said.code == 0, said.err
    said = cli("classify", tmp_path / "m.gguf", "--json", tmp_path / "m.gguf", stdin=b"one\n")
    assert "would be overwritten" in said.error


def test_an_empty_line_has_no_guess(model: Asked, cli: Cli, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    said = cli("fill", "m", "--json", found, stdin=b"a [MASK]\n\n \t\nb [MASK]\n")
    assert said.out == b"a [MASK]\n\n\nb [MASK]\n"
    assert (model.texts, model.numbers) == (["a [MASK]", "b [MASK]"], [1, 4])
    first, *empty, last = json.loads(found.read_text(encoding="utf-8"))
    assert ([first["text"], last["text"]], empty) == (["a [MASK]", "b [MASK]"], [None, None])
    cli("fill", "m", "--text", "", "--text", "c [MASK]")
    assert (model.texts[2:], model.numbers) == (["", "c [MASK]"], [1, 2])


def test_a_label_is_asked_for_by_the_number_of_its_line(model: Asked, cli: Cli) -> None:
    for words, stdin in (((), b"one\n\ntwo\n"), (("--second",), b"a\tb\n\nc\td\n")):
        for model.labels in (["a", "b"], None):
            cli("classify", "m", *words, stdin=stdin)
            assert model.numbers == [1, 3]
