"""The benchmark of serving gives both ways the same work, and sees where they part."""

from __future__ import annotations

import importlib

import pytest

from headway.runs.language_model import LanguageModel


def test_both_ways_do_the_same_work(
    monkeypatch: pytest.MonkeyPatch, byte_model: LanguageModel
) -> None:
    serving = importlib.import_module("serving")
    monkeypatch.setattr(serving, "NEW", (3, 9))
    monkeypatch.setattr(serving, "REPEATED", 9)
    found = serving.measure(byte_model, 5, 0.02, 3000)
    assert (found["same"], found["of"], found["differences"]) == (5, 5, [])
    both = found["one_by_one"], found["together"]
    asked = serving.work(5, 0.02)
    wanted = sum(each.new_tokens for each in asked)
    assert [each["new_tokens"] for each in both] == [wanted, wanted]
    assert all(each["seconds_to_first_text"] <= each["seconds_to_end"]["most"] for each in both)
    assert found["ratio"] > 0
    assert found["lookup"]["same"] == found["lookup"]["of"]


def test_where_two_answers_part_is_seen(byte_model: LanguageModel) -> None:
    serving, model = importlib.import_module("serving"), byte_model
    told = serving.margin(model, "ab", [5, 6, 7], [5, 6, 8])
    assert told["place"] == 2
    assert told["nats"] > 0
    assert serving.margin(model, "ab", [5, 6], [5])["place"] == 1
