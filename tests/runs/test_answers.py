"""Fine-tuning a language model on prompts and answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.huggingface import write_model
from headway.checkpoint.weights import read_tensors
from headway.models.build import build_decoder
from headway.runs.language_model import LanguageModel, Sampling
from headway.runs.tasks.answers import AnswerTask
from headway.runs.tasks.ending import PASSAGES
from headway.runs.text_tokenizers import tokenizer_files
from headway.settings.kinds import AnswerRecipe
from headway.settings.model import DecoderSettings
from headway.settings.recipe import load_recipe
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.text import Roles, TextTokenizer
from headway.tokens.text_training import train_text_tokenizer
from headway.tokens.tokenizer import open_backend

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
        prompt = f"{'what says ' * (place // 4 % 3)}the {animal} ?"
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
    part = {"file": str(place / "rows.jsonl"), **keys.pop("part", {})}
    data = {"kind": "answers", "train": part}
    train = {
        "epochs": 12.0,
        "batch_rows": 8,
        "learning_rate": 2e-2,
        "optimizer": "muon",
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
    found = task(place, max_tokens=13, chat=True).material
    assert found is not None
    shares = [line for line in found.notices if "the end of the answer is learnt in" in line]
    (share,) = (float(line.split(" in ")[1].split("%")[0]) for line in shares)
    assert 0 < share < 100


def test_rows_that_the_template_refuses_are_told_and_may_be_left_out(
    place: Path, tmp_path: Path
) -> None:
    talk = rows()[0]["messages"]
    lines = [json.dumps({"messages": talk}) for _ in range(3)]
    lines.insert(1, json.dumps({"messages": [{"role": "tool", "content": "x"}, talk[1]]}))
    (tmp_path / "talks.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    shutil.copytree(place / "gpt2", tmp_path / "gpt2")
    config = json.loads((tmp_path / "gpt2/tokenizer_config.json").read_text("utf-8"))
    refuses = "{% if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    config["chat_template"] = refuses + TEMPLATE
    (tmp_path / "gpt2/tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    part = {"file": str(tmp_path / "talks.jsonl"), "messages": "messages"}
    with pytest.raises(UserError, match=r"talks\.jsonl:2: .*no tools.*1 of 4 rows.*bad = 'drop'"):
        task(tmp_path, part=part)
    found = task(tmp_path, part={**part, "bad": "drop"}).material
    assert found is not None
    assert "train: 1 rows refused by the chat template: 2" in found.notices
    assert len(found.batches.epoch(0)[0]) == 3
    (tmp_path / "held.jsonl").write_text(f"{lines[1]}\n{lines[0]}\n", encoding="utf-8")
    held = {"file": str(tmp_path / "held.jsonl"), "messages": "messages"}
    judged = task(tmp_path, part={**part, "bad": "drop"}, valid=held)
    assert judged.material is not None
    assert judged.valid is not None
    assert "valid: 1 rows refused by the chat template: 1" in judged.material.notices
    opened = judged.open(judged.build().eval(), torch.device("cpu"))
    (passage,) = judged.judged(opened, judged.valid).record[PASSAGES]
    assert passage["prompt"].startswith("user the")


def said(run: Path) -> list[tuple[str, str]]:
    opened = headway.load(run, device="cpu")
    assert isinstance(opened, LanguageModel)
    greedy = Sampling(temperature=0.0, max_new_tokens=6)
    found = opened.generate([f"the {animal} ?" for animal in ANIMALS], greedy)
    return [(each.text.strip(), each.reason) for each in found]


def test_it_answers_and_stops_and_is_taught_otherwise_by_low_rank_updates(
    place: Path, tmp_path: Path
) -> None:
    headway.train(recipe(place), out=tmp_path / "run")
    assert said(tmp_path / "run") == [(says, "end") for says in ANIMALS.values()]
    others = dict(zip(ANIMALS, reversed(ANIMALS.values()), strict=True))
    lines = [{"prompt": f"the {animal} ?", "answer": f" {says}"} for animal, says in others.items()]
    file = tmp_path / "others.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines * 2), encoding="utf-8")
    lora = {"rank": 8, "layers": ["to_query", "to_value", "up", "down"]}
    table = recipe(place, part={"file": str(file)}, train={"lora": lora, "epochs": 120.0})
    table["model"]["from"] = str(tmp_path / "run")
    headway.train(table, out=tmp_path / "next")
    assert said(tmp_path / "next") == [(says, "end") for says in others.values()]
    names = read_tensors(tmp_path / "next/model.safetensors").keys()
    assert names == build_decoder(SETTINGS, n_tokens=1).state_dict().keys()
    config = json.loads((tmp_path / "next/config.json").read_text(encoding="utf-8"))
    assert config["trained"] < config["parameters"]


def test_it_is_judged_by_answers(place: Path, tmp_path: Path) -> None:
    table = recipe(place, held_out=0.2, chat=True, train={"steps": 12})
    headway.train(table, out=tmp_path / "run")
    lines = (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    valid = [each for each in map(json.loads, lines) if each["kind"] == "valid"]
    assert valid[-1]["perplexity"] < valid[0]["perplexity"]
    shown = valid[-1]["passages"][0]
    assert set(shown) == {"prompt", "answer", "given"}
    assert shown["answer"].strip() in ANIMALS.values()
    assert torch.isfinite(torch.tensor(valid[-1]["nll"]))


def test_held_out_rows_are_looked_at_before_the_training(place: Path, tmp_path: Path) -> None:
    long = json.dumps({"prompt": "the cat ? " * 40, "answer": " meow"})
    (tmp_path / "long.jsonl").write_text(f"{long}\n", encoding="utf-8")
    table = recipe(place, valid={"file": str(tmp_path / "long.jsonl")})
    with pytest.raises(UserError, match="in no row is there an answer within 32 tokens"):
        headway.train(table, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_stops_goes_on_exactly(place: Path, goes_on_exactly: Callable[..., None]) -> None:
    """Dropout on, and evaluations that generate."""
    table = recipe(place, held_out=0.2)
    table["model"]["dropout"] = 0.2
    goes_on_exactly(table, steps=11, save_every=4, evaluate_every=3)
