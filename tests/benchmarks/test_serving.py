"""The benchmark of serving gives both ways the same work, and sees where they part."""

from __future__ import annotations

import importlib

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from headway.models.build import build_decoder
from headway.runs.language_model import LanguageModel
from headway.settings.model import DecoderSettings
from headway.tokens.text import Roles, TextTokenizer


def made() -> LanguageModel:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    sizes = {"d_model": 16, "d_feed_forward": 16, "n_heads": 2, "n_layers": 1, "max_length": 2048}
    settings = DecoderSettings(**sizes, order="pre", positions="rotary")  # type: ignore[arg-type]
    model = build_decoder(settings, n_tokens=256, seed=3)
    with torch.no_grad():
        model.head.weight.normal_()
    tokenizer = TextTokenizer(backend, Roles(bos=0))
    return LanguageModel(model, tokenizer, settings, torch.device("cpu"))


def test_both_ways_do_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = importlib.import_module("serving")
    monkeypatch.setattr(serving, "NEW", (3, 9))
    monkeypatch.setattr(serving, "REPEATED", 9)
    found = serving.measure(made(), 5, 0.02, 3000)
    assert (found["same"], found["of"], found["differences"]) == (5, 5, [])
    both = found["one_by_one"], found["together"]
    asked = serving.work(5, 0.02)
    wanted = sum(each.new_tokens for each in asked)
    assert [each["new_tokens"] for each in both] == [wanted, wanted]
    assert all(each["seconds_to_first_text"] <= each["seconds_to_end"]["most"] for each in both)
    assert found["ratio"] > 0
    assert found["lookup"]["same"] == found["lookup"]["of"]


def test_where_two_answers_part_is_seen() -> None:
    serving, model = importlib.import_module("serving"), made()
    told = serving.margin(model, "ab", [5, 6, 7], [5, 6, 8])
    assert told["place"] == 2
    assert told["nats"] > 0
    assert serving.margin(model, "ab", [5, 6], [5])["place"] == 1
