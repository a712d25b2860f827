"""A small Llama prompted, and its log-likelihoods against lm-evaluation-harness's own back end.

    .venv-bench/bin/python benchmarks/prompting.py SmolLM2-135M-Instruct.Q4_1.gguf \\
        --out benchmarks/results/prompting-smollm2

Writes OUT.json and the curves OUT-sst2.svg and OUT-facts.svg. SST-2 is GLUE's, in the folder
glue/SST-2 of HEADWAY_DATA; 200 sentences of the validation part are asked, drawn by the seed. The
facts (which language is spoken in a country, what people pay with) come from CLDR, four choices
each. The model of the harness is transformers' reading of the same file, in float32, with the
tokeniser that Headway reads from it: transformers' own rebuild splits digits otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import babel
from babel.languages import get_official_languages
from babel.numbers import get_territory_currencies

import headway
from headway.base.files import digest, to_json, write_atomic
from headway.base.runtime import environment
from headway.runs.language_model import LanguageModel
from headway.runs.open_model import open_language_model

SHOTS, DRAWS, LINES, SEED = (0, 1, 4, 16), 5, 200, 1
STEM = 4  # letters: a country and its language that begin alike give the answer away
MISSING = "HEADWAY_DATA names no folder with glue/SST-2"


def facts() -> list[dict[str, Any]]:
    """Questions on countries whose answer is one, and is not in the country's own name."""
    english = babel.Locale("en")
    countries = sorted(str(code) for code in english.territories if len(code) == 2)
    kinds: list[tuple[str, Callable[[str], Any], Any]] = [
        ("The language spoken in {} is", get_official_languages, english.languages),
        ("In {} people pay with the", get_territory_currencies, english.currencies),
    ]
    draw, found = random.Random(SEED), []
    for text, known, names in kinds:
        pairs = []
        for code in countries:
            answers = [names.get(each) for each in known(code)]
            country = str(english.territories[code])
            if len(answers) == 1 and answers[0] and not alike(country, answers[0]):
                pairs.append((country, answers[0]))
        others = sorted({answer for _, answer in pairs})
        for country, answer in pairs:
            wrong = [each for each in others if each != answer and not alike(country, each)]
            choices = [answer, *draw.sample(wrong, 3)]
            draw.shuffle(choices)
            found.append({"prompt": text.format(country), "choices": choices, "answer": answer})
    return found


def alike(country: str, answer: str) -> bool:
    """Whether a word of one begins as a word of the other."""
    stems = [{word[:STEM].lower() for word in text.split()} for text in (country, answer)]
    return bool(stems[0] & stems[1])


def requests(glue: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """200 of them: zero-shot ones of both sets, and those that go wrong most easily."""
    odd = [
        ("", "The capital of France is Paris."),
        ("The answer is ", "yes"),
        ("Two lines\n\n", "and a third"),
        ("def add(a, b):\n    return", " a + b"),
        ("In 1989 the wall", " fell, 28 years after 1961."),
        ("Ça va ?", " Très bien, merci 😀"),
        ("One word and then another. " * 50, "and the end"),
        ("x", "."),
    ]
    found = [(each["prompt"], f" {choice}") for each in glue for choice in each["choices"]][:96]
    found += [(each["prompt"], f" {choice}") for each in questions for choice in each["choices"]]
    return (odd + found)[:200]


def compare(path: Path, model: LanguageModel, asked: list[tuple[str, str]]) -> dict[str, Any]:
    """Our log-likelihoods and those of the harness's HFLM, and how far they are apart."""
    import torch
    import transformers
    from lm_eval.models.huggingface import HFLM

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        file.write_text(model.tokenizer.to_json(), encoding="utf-8")
        names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), **names)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent.resolve()), gguf_file=path.name, dtype=torch.float32
    )
    harness = HFLM(pretrained=theirs, tokenizer=tokenizer, batch_size=4, device="cpu")
    began = time.perf_counter()
    wanted = harness.loglikelihood([SimpleNamespace(args=each, task_name="") for each in asked])
    between = time.perf_counter()
    found = model.log_likelihoods(asked)
    ended = time.perf_counter()
    apart = [abs(one.log_prob - other[0]) for one, other in zip(found, wanted, strict=True)]
    greedy = [one.greedy == other[1] for one, other in zip(found, wanted, strict=True)]
    return {
        "requests": len(asked),
        "largest_difference": max(apart),
        "mean_difference": sum(apart) / len(apart),
        "same_greedy": sum(greedy),
        "seconds": round(ended - between, 2),
        "harness_seconds": round(between - began, 2),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, default=Path("prompting"))
    arguments = parser.parse_args()
    glue = Path(os.environ.get("HEADWAY_DATA", "")) / "glue"
    if not (glue / "SST-2").is_dir():
        parser.error(MISSING)
    model = open_language_model(arguments.model, device="cpu")
    tables: dict[str, Any] = {}
    questions = facts()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "facts.jsonl")
        lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in questions)
        file.write_text("".join(lines), encoding="utf-8")
        for name, data in (
            ("sst2", {"task": "glue/sst2", "glue": glue}),
            ("facts", {"file": file}),
        ):
            began = time.perf_counter()
            found = headway.prompt(
                model, **data, shots=SHOTS, draws=DRAWS, lines=LINES, seed=SEED, progress=True
            )
            tables[name] = found.to_table() | {"seconds": round(time.perf_counter() - began, 1)}
            print(found.table(), flush=True)
            found.draw(arguments.out.with_name(f"{arguments.out.name}-{name}.svg"))
            if name == "sst2":
                zero = [each for each in found.records if each["shots"] == 0]
    tables["harness"] = compare(arguments.model, model, requests(zero, questions))
    print(tables["harness"])
    known = {"model": arguments.model.name, "model_sha256": digest(arguments.model)}
    write_atomic(
        arguments.out.with_suffix(".json"),
        to_json({"machine": environment(), **known, "facts_asked": questions[:3], **tables}),
    )


if __name__ == "__main__":
    main()
