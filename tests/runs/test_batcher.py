"""Requests to a language model answered together, and with something that guesses ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.models.build import build_decoder
from headway.runs.batcher import Answer
from headway.runs.generated import Generated, Sampling
from headway.runs.language_model import LanguageModel
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS
from headway.tokens.text import Roles, TextTokenizer

GREEDY = Sampling(temperature=0.0, max_new_tokens=24)
DRAWN = Sampling(max_new_tokens=30, temperature=1.2, seed=7)
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|user|>"
PROMPTS = ["a", "Once upon a time", "", "été", "b" * 40]


def made(n_layers: int = 2, specials: tuple[str, ...] = ("<|end|>", "<|user|>")) -> LanguageModel:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(each, normalized=False) for each in specials])
    row = PRESETS["smollm2-135m"] | {"n_layers": n_layers, "d_model": 48, "d_feed_forward": 64}
    settings = DecoderSettings(**row | {"n_heads": 4, "n_kv_heads": 2, "max_length": 64})
    model = build_decoder(settings, n_tokens=260, seed=3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)) * 0.3)
    roles = Roles(ends=frozenset({256}), template=TEMPLATE)
    return LanguageModel(model, TextTokenizer(backend, roles), settings, torch.device("cpu"))


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return made()


def alone(model: LanguageModel, prompt: str, sampling: Sampling) -> Generated:
    return model.generate([prompt], sampling)[0]


def test_requests_of_all_kinds_are_answered_as_alone(model: LanguageModel) -> None:
    whole = alone(model, "a", GREEDY).text
    kinds = [
        GREEDY,
        DRAWN,
        replace(GREEDY, stop=(whole[5:8],)),
        replace(DRAWN, top_k=20, repetition_penalty=4.0, max_new_tokens=9),
        Sampling(max_new_tokens=0),
    ]
    asked = [(prompt, kind) for prompt in PROMPTS for kind in kinds]
    batcher, answers, sent = model.batcher(memory=250), list[Answer](), dict[int, str]()
    for number, (prompt, kind) in enumerate(asked):

        def tell(text: str, number: int = number) -> None:
            sent[number] = sent.get(number, "") + text

        answers.append(batcher.submit(prompt, kind, tell))
        batcher.step()
    batcher.run()
    for number, (answer, (prompt, kind)) in enumerate(zip(answers, asked, strict=True)):
        found, wanted = answer.result(), alone(model, prompt, kind)
        assert (found.ids, found.text, found.reason) == (wanted.ids, wanted.text, wanted.reason)
        assert found.log_prob == pytest.approx(wanted.log_prob, abs=1e-3)
        assert answer.text == sent.get(number, "") == found.text
    assert {answer.result().reason for answer in answers} >= {"stop", "limit"}


def test_a_conversation_is_answered(model: LanguageModel) -> None:
    talk: Any = [{"role": "user", "content": "hi"}]
    batcher = model.batcher()
    answer = batcher.submit(talk, GREEDY)
    batcher.run()
    assert answer.result() == model.answer(talk, GREEDY)


def test_who_takes_it_back_gets_what_there_was(model: LanguageModel) -> None:
    batcher, sent = model.batcher(), list[str]()
    answer, other = batcher.submit("a", GREEDY, sent.append), batcher.submit("b", GREEDY)
    for _ in range(5):
        batcher.step()
    answer.cancel()
    assert not answer.done
    with pytest.raises(RuntimeError, match="not done"):
        answer.result()
    batcher.run()
    found = answer.result()
    assert (found.reason, len(found.ids), found.text) == ("cancelled", 5, "".join(sent))
    assert found.ids == alone(model, "a", GREEDY).ids[:5]
    assert other.result().ids == alone(model, "b", GREEDY).ids


def test_what_a_listener_raises_ends_its_own_request(model: LanguageModel) -> None:
    def tell(text: str) -> None:
        raise BrokenPipeError(text)

    batcher = model.batcher()
    gone, other = batcher.submit("a", GREEDY, tell), batcher.submit("b", GREEDY)
    batcher.run()
    with pytest.raises(BrokenPipeError):
        gone.result()
    assert other.result().ids == alone(model, "b", GREEDY).ids


def test_what_is_asked_by_the_last_words_of_another_is_answered_too(model: LanguageModel) -> None:
    batcher, more = model.batcher(), list[Answer]()
    whole = alone(model, "a", replace(GREEDY, max_new_tokens=2)).text
    late = Sampling(temperature=0.0, max_new_tokens=2, stop=(whole + "~",))  # all comes at the end
    batcher.submit("a", late, lambda _: more.append(batcher.submit("b", GREEDY)))
    batcher.run()
    assert [each.result().ids for each in more] == [alone(model, "b", GREEDY).ids]


def test_what_cannot_be_is_refused_when_it_comes(model: LanguageModel) -> None:
    batcher = model.batcher(memory=30)
    with pytest.raises(UserError, match="the prompt has 64 tokens; the model's context is 64"):
        batcher.submit("b" * 64)
    with pytest.raises(UserError, match="20 tokens and 24 new ones need room for 43"):
        batcher.submit("b" * 20, GREEDY)
    with pytest.raises(UserError, match="temperature"):
        batcher.submit("b", Sampling(temperature=-1.0))
    assert not batcher.step()


@pytest.mark.parametrize("sampling", [GREEDY, replace(GREEDY, stop=("~",), repetition_penalty=9.0)])
def test_a_draft_changes_no_token(model: LanguageModel, sampling: Sampling) -> None:
    plain = model.generate(PROMPTS, sampling)
    for draft in ("lookup", made(n_layers=1), model):
        sent = dict.fromkeys(range(len(PROMPTS)), "")

        def tell(row: int, text: str, sent: dict[int, str] = sent) -> None:
            sent[row] += text

        found = model.generate(PROMPTS, sampling, tell, draft=draft)  # type: ignore[arg-type]
        assert [each.ids for each in found] == [each.ids for each in plain]
        assert list(sent.values()) == [each.text for each in plain]
        assert all(each.accepted <= each.guessed for each in found)
        if draft is model and sampling is GREEDY:
            cut = [each for each in found if each.reason == "limit"]
            assert cut
            assert all(each.accepted == each.guessed > 10 for each in cut)


def test_a_draft_may_lack_rows_of_no_token(model: LanguageModel) -> None:
    """A vocabulary has fewer tokens than rows, and a model may say one that is none."""
    settings, tokenizer = model.settings, model.tokenizer
    small = build_decoder(settings, n_tokens=len(tokenizer), seed=4)
    draft = LanguageModel(small, tokenizer, settings, torch.device("cpu"))
    wide = made()
    with torch.no_grad():  # one of the two is always likely
        wide.model.head.weight[len(tokenizer)] *= 3
        wide.model.head.weight[len(tokenizer) + 1] = -wide.model.head.weight[len(tokenizer)]
    plain = wide.generate(PROMPTS, GREEDY)
    assert any(id >= len(tokenizer) for each in plain for id in each.ids)
    found = wide.generate(PROMPTS, GREEDY, draft=draft)
    assert [each.ids for each in found] == [each.ids for each in plain]


def test_a_draft_that_spells_otherwise_is_refused(model: LanguageModel) -> None:
    with pytest.raises(
        UserError, match=r"another vocabulary .*: id 257 is '<s>', not '<\|user\|>'"
    ):
        model.generate(["a"], GREEDY, draft=made(specials=("<|end|>", "<s>")))
    for name in ("runs/small", "LookUp"):
        with pytest.raises(UserError, match="draft: an open language model, or 'lookup', guesses"):
            model.generate(["a"], GREEDY, draft=name)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"another vocabulary .*: 259 ids, not 258"):
        model.generate(["a"], GREEDY, draft=made(specials=("<|end|>", "<|user|>", "<s>")))


@pytest.mark.parametrize("stop", ["ab", ("a", "")])
def test_stop_texts_are_several_and_not_empty(stop: Any) -> None:
    with pytest.raises(UserError, match="stop: "):
        Sampling(stop=stop)


def test_settings_are_refused_where_they_are_said() -> None:
    with pytest.raises(UserError, match="top_p"):
        Sampling(top_p=3.0)


@pytest.mark.parametrize("talk", ["hi", ["hi"], [{"role": "user"}]])
def test_what_is_no_message_is_refused(model: LanguageModel, talk: Any) -> None:
    with pytest.raises(UserError, match="message 1 has no 'role' and 'content'"):
        model.answer(talk)
