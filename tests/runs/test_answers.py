"""Fine-tuning a language model on prompts and answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.checkpoint.exchange.huggingface import write_model
from headway.checkpoint.weights import read_tensors
from headway.models.build import build_decoder
from headway.runs.language_model import LanguageModel, Sampling
from headway.runs.tasks.answers import AnswerTask
from headway.runs.text_tokenizers import tokenizer_files
from headway.settings.kinds import AnswerRecipe
from headway.settings.model import DecoderSettings
from headway.settings.recipe import load_recipe
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.text import Roles, TextTokenizer
from headway.tokens.text_training import train_text_tokenizer
from headway.tokens.tokenizer import open_backend

Cli = Callable[..., Any]
ANIMALS = {"cat": "meow", "dog": "woof", "cow": "moo", "owl": "hoo"}
TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }} {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant{% endif %}"
)
SETTINGS = DecoderSettings(
    d_model=32,
    d_feed_forward=48,
    n_heads=2,
    n_layers=1,
    order="pre",
    positions="learned",
    feed_forward="gelu_tanh",
    max_length=32,
    dropout=0.0,
)


def rows() -> list[dict[str, Any]]:
    found = []
    for place, (animal, says) in enumerate(list(ANIMALS.items()) * 12):
        prompt = f"{'what says the ' if place % 2 else 'the '}{animal} ?"
        talk = [{"role": "user", "content": prompt}, {"role": "assistant", "content": says}]
        found.append({"prompt": prompt, "answer": f" {says}", "messages": talk})
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    lines = (json.dumps(row) for row in rows())
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    texts = [text for row in rows() for text in (row["prompt"], row["answer"], "user assistant")]
    made = train_text_tokenizer(TokenizerSettings(kind="word", size=40), texts, masks=False)
    roles = Roles(**{**vars(made.roles), "pad": made.roles.bos, "template": TEMPLATE})
    backend = open_backend(made.to_json(), where="test", todo="")
    tokenizer = TextTokenizer(backend, roles)
    write_model(folder / "gpt2", build_decoder(SETTINGS, n_tokens=len(made), seed=3), SETTINGS)
    for name, text in tokenizer_files(tokenizer).items():
        (folder / "gpt2" / name).write_text(text, encoding="utf-8")
    return folder


def recipe(place: Path, **keys: Any) -> dict[str, Any]:
    data = {"kind": "answers", "train": {"file": str(place / "rows.jsonl"), **keys.pop("part", {})}}
    train = {
        "epochs": 12.0,
        "batch_rows": 8,
        "learning_rate": 1e-2,
        "dtype": "float32",
        **keys.pop("train", {}),
    }
    return {
        "data": {**data, **keys},
        "model": {"from": str(place / "gpt2")},
        "train": train,
        "evaluate": {"new_tokens": 4, "samples": 2},
    }


def task(place: Path, **keys: Any) -> AnswerTask:
    table = recipe(place, **keys)
    table["model"] |= SETTINGS.to_table()
    made = load_recipe(table)
    assert isinstance(made, AnswerRecipe)
    return AnswerTask.prepare(made, None)


@pytest.mark.parametrize(
    "keys", [{}, {"chat": True}, {"part": {"messages": "messages"}}], ids=["plain", "chat", "talk"]
)
def test_the_answer_and_its_end_alone_are_learnt(place: Path, keys: dict[str, Any]) -> None:
    found = task(place, **keys)
    assert found.material is not None
    end = min(found.tokenizer.roles.ends)
    for some in found.material.batches.epoch(0):
        batch = found.material.batches.batch(0, some)
        for row, place_of in zip(range(len(some)), some, strict=True):
            learnt = batch.following[row][batch.predicted[row]].tolist()
            assert learnt[-1] == end
            said = found.tokenizer.decode([learnt])[0].strip()
            assert said == rows()[place_of]["answer"].strip()
            assert learnt.count(end) == 1
    assert any("learnt in 100.0% of the rows" in line for line in found.material.notices)


def test_ends_that_are_cut_off_are_told(place: Path) -> None:
    found = task(place, max_tokens=8, chat=True).material
    assert found is not None
    shares = [line for line in found.notices if "the end of the answer is learnt in" in line]
    (share,) = (float(line.split(" in ")[1].split("%")[0]) for line in shares)
    assert 0 < share < 100


@pytest.mark.parametrize(
    "lora", [None, {"rank": 8, "layers": ["to_query", "to_value", "up", "down"]}]
)
def test_it_answers_and_stops(place: Path, tmp_path: Path, lora: Any, cli: Cli) -> None:
    table = recipe(place, train={} if lora is None else {"lora": lora, "epochs": 40.0})
    opened = headway.train(table, out=tmp_path / "run")
    assert isinstance(opened, LanguageModel)
    found = opened.generate(
        [f"the {animal} ?" for animal in ANIMALS], Sampling(temperature=0.0, max_new_tokens=6)
    )
    assert [(each.text.strip(), each.reason) for each in found] == [
        (says, "end") for says in ANIMALS.values()
    ]
    names = read_tensors(tmp_path / "run/model.safetensors").keys()
    assert names == build_decoder(SETTINGS, n_tokens=1).state_dict().keys()
    config = json.loads((tmp_path / "run/config.json").read_text(encoding="utf-8"))
    assert (config["trained"] < config["parameters"]) is (lora is not None)


def test_it_is_judged_by_answers(place: Path, tmp_path: Path) -> None:
    table = recipe(place, held_out=0.3, chat=True, train={"steps": 12})
    headway.train(table, out=tmp_path / "run")
    lines = (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    valid = [each for each in map(json.loads, lines) if each["kind"] == "valid"]
    assert valid[-1]["perplexity"] < valid[0]["perplexity"]
    shown = valid[-1]["passages"][0]
    assert set(shown) == {"prompt", "answer", "given"}
    assert shown["answer"].strip() in ANIMALS.values()
    assert torch.isfinite(torch.tensor(valid[-1]["nll"]))
