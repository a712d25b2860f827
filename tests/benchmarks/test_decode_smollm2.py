"""The peers of decode-smollm2 hold nothing of Headway's: what they are given comes by a file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_one_text_is_held_against_reading_the_weights_once_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    floor, work = (importlib.import_module(name) for name in ("decode_floor", "smollm2_work"))
    model = small()
    weights = 4 * (16 * V + 4 * 16 * 16 + 2 * 16 * 16)  # output, attention, feed-forward: float32
    biases = 4 * sum(each.bias.numel() for each in linear(model) if each.bias is not None)
    monkeypatch.setattr(floor, "reading_rate", lambda: 1e6)
    monkeypatch.setattr(work, "OURS", {"float32": None})
    monkeypatch.setattr(work, "opened", lambda *_: model)
    found = work.fastest(Path("unread.gguf"))
    assert found == {"float32": pytest.approx(1e6 / (weights + biases))}


def linear(model: LanguageModel) -> list[torch.nn.Linear]:
    return [each for each in model.model.modules() if isinstance(each, torch.nn.Linear)]


def test_rows_of_one_text_have_their_share_and_a_lost_peer_has_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, contest = (importlib.import_module(name) for name in ("decode_smollm2", "contest"))

    def remaining(commands: dict[str, list[str]], *, rounds: int) -> tuple[Any, dict[str, str]]:
        facts = {"cpu_seconds": 1.0, "elsewhere": 0.0, "peak_mib": 9.0, "told": {}}
        left = [name for name in commands if not name.startswith("llama")]
        turns = {name: [contest.Turn(50.0, 1.0, **facts)] * rounds for name in left}
        return turns, {name: "it ended" for name in commands if name not in left}

    monkeypatch.setattr(case, "remaining", remaining)
    speeds: dict[str, Any] = {}
    shares = {}
    for work, names in case.WORK.items():
        commands = {name: [name] for name in names}
        rows = case._speed(work, commands, 2, {"float32": 100.0, "int8": 400.0}, speeds)
        lost = [row["peer"] for row in rows if row.get("reason") == "it ended"]
        assert lost == [name for name in names if name.startswith("llama")]
        shares[work] = {row["peer"]: row["limit_share"] for row in rows if "limit_share" in row}
    assert shares["one"] == {
        "transformers-float32, ours float32": 0.5,
        "transformers-bfloat16, ours int8": 0.125,
    }
    assert shares["many"] == shares["read"] == {}
    assert len(case._together(speeds)) == len(case.OURS)
