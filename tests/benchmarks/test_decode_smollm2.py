"""The peers of decode-smollm2 hold nothing of Headway's: what they are given comes by a file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from headway.models.build import build_decoder
from headway.runs.language_model import LanguageModel
from headway.settings.model import DecoderSettings
from headway.tokens.text import Roles, TextTokenizer

V = 300
ALONE = """
import sys
import decode_smollm2
import smollm2_work
assert {"torch", "headway", "transformers", "numpy"}.isdisjoint(sys.modules), sorted(sys.modules)
"""


def small() -> LanguageModel:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    settings = DecoderSettings(n_layers=1, d_model=16, d_feed_forward=16, n_heads=2, max_length=64)
    model = build_decoder(settings, n_tokens=V, seed=3)
    tokenizer = TextTokenizer(backend, Roles(bos=0, eos=7, ends=frozenset({9, 7})))
    return LanguageModel(model, tokenizer, settings, torch.device("cpu"))


def test_a_contender_imports_what_it_runs_alone(benchmarks: Path) -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True, cwd=benchmarks)


def test_what_is_given_comes_through_the_file(tmp_path: Path) -> None:
    case = importlib.import_module("smollm2_work")
    model, texts = small(), ["a", "bcd"] * 10
    case.write_given(model, texts, tmp_path / "given.json")
    given = case.read_given(tmp_path / "given.json")
    assert given.prompts == model.tokenizer.prompts(texts)
    assert (given.end, given.ends) == (7, [7, 9])
    assert given.threads == torch.get_num_threads()
    assert len(given.page) == case.N_READ
    assert 0 <= min(given.page) <= max(given.page) < V
    assert [len(given.rows(work)) for work in ("one", "many")] == [1, case.TOGETHER]


@pytest.mark.parametrize("work", ["one", "many", "read"])
def test_transformers_works_without_our_model(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    case = importlib.import_module("smollm2_work")
    monkeypatch.setattr(case, "opened", lambda *_: pytest.fail("our model was loaded"))
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=1024,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    prompts = [[5, 6, 7], [8]] * 10
    given = case.Given(prompts, [place % V for place in range(case.N_READ)], 299, [299], 1)
    done = case.theirs(tmp_path, given, "transformers-float32", work)()
    most = {"one": case.N_NEW, "many": case.N_NEW * case.TOGETHER, "read": case.N_READ}[work]
    assert 0 < done <= most
