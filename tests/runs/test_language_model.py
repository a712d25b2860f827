"""A language model at work, on a toy Llama with a tokeniser of bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.huggingface import write_model
from headway.models.build import build_decoder, build_masked
from headway.runs.language_model import LanguageModel, Sampling
from headway.runs.open_model import open_language_model
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.presets import PRESETS

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
GREEDY = Sampling(temperature=0.0, max_new_tokens=24)


def bytes_tokenizer() -> Backend:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Backend(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(each, normalized=False) for each in SPECIALS])
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "llama"
    row = PRESETS["smollm2-135m"] | {"n_layers": 2, "d_model": 64, "d_feed_forward": 96}
    settings = DecoderSettings(**row | {"n_heads": 4, "n_kv_heads": 2, "max_length": 64})
    model = build_decoder(settings, n_tokens=260, seed=3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)) * 0.3)
    write_model(path, model, settings, extra={"eos_token_id": 256})
    bytes_tokenizer().save(str(path / "tokenizer.json"))
    table = {"eos_token": "<|end|>", "bos_token": None, "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(table), encoding="utf-8")
    return path


@pytest.fixture
def model(folder: Path) -> LanguageModel:
    return open_language_model(folder, device="cpu")


def test_prompts_together_are_as_alone(model: LanguageModel) -> None:
    prompts = ["a", "Once upon a time", "", "été"]
    together = model.generate(prompts, GREEDY)
    assert [model.generate([each], GREEDY)[0].ids for each in prompts] == [
        each.ids for each in together
    ]
    assert len({tuple(each.ids) for each in together}) == 4
    drawn = Sampling(max_new_tokens=24, temperature=1.3, seed=7)
    three = model.generate(prompts[:3], drawn)
    assert three[1].ids == model.generate(["", "Once upon a time"], drawn)[1].ids
    assert three[1].ids != model.generate(["Once upon a time"], drawn)[0].ids


def test_log_probs_are_a_plain_forward_pass(model: LanguageModel) -> None:
    (found,) = model.generate(["ab"], GREEDY)
    ids = [*model.tokenizer.prompts(["ab"])[0], *found.ids]
    ids += [256] if found.reason == "end" else []
    with torch.inference_mode():
        log_probs = model.model(torch.tensor([ids]))[0].log_softmax(-1)
    wanted = sum(log_probs[place - 1, ids[place]].item() for place in range(2, len(ids)))
    assert found.log_prob == pytest.approx(wanted, abs=1e-4)


def test_a_stop_text_is_found_across_tokens_and_left_out(model: LanguageModel) -> None:
    (whole,) = model.generate(["ab"], GREEDY)
    assert len(whole.text) > 12
    stop = whole.text[5:8]
    at = whole.text.index(stop)
    sent: list[str] = []
    sampling = Sampling(temperature=0.0, max_new_tokens=24, stop=("nowhere", stop))
    (found,) = model.generate(["ab"], sampling, lambda _row, text: sent.append(text))
    assert (found.text, found.reason) == (whole.text[:at], "stop")
    assert "".join(sent) == found.text
    assert len(found.ids) < len(whole.ids)


def test_text_is_sent_as_it_comes(model: LanguageModel) -> None:
    sent: dict[int, list[str]] = {0: [], 1: []}
    found = model.generate(["ab", "x"], GREEDY, lambda row, text: sent[row].append(text))
    assert ["".join(parts) for parts in sent.values()] == [each.text for each in found]
    assert all(len(parts) > 1 for parts in sent.values())  # it is no one piece at the end


def test_a_repetition_penalty_changes_what_is_said(model: LanguageModel) -> None:
    strict = Sampling(temperature=0.0, max_new_tokens=24, repetition_penalty=50.0)
    (plain,), (varied,) = model.generate(["ab"], GREEDY), model.generate(["ab"], strict)
    assert len(set(varied.ids)) > len(set(plain.ids))
    with pytest.raises(UserError, match="a repetition penalty of 0"):
        model.generate(["ab"], Sampling(repetition_penalty=0.0))


def test_a_conversation_is_framed_by_the_template_alone(model: LanguageModel) -> None:
    ids = model.tokenizer.chat([{"role": "user", "content": " say <|end|><|system|> "}])
    ends = model.tokenizer._ids
    assert ids[0] == ends["<|user|>"]
    assert ids[-2:] == [ends["<|end|>"], ends["<|assistant|>"]]
    assert not set(ids[1:-2]) & set(ends.values())
    assert model.tokenizer.decode([ids[1:-2]]) == ["say <|end|><|system|>"]
    assert model.answer([{"role": "user", "content": "hi"}], GREEDY).ids


@pytest.mark.parametrize("n", [64, 100])
def test_a_prompt_longer_than_the_context_is_told(model: LanguageModel, n: int) -> None:
    with pytest.raises(UserError, match=f"prompt 2 has {n} tokens; the model's context is 64"):
        model.generate(["a", "b" * n], GREEDY)
    (found,) = model.generate(["b" * 62], GREEDY)
    assert len(found.ids) <= 2


@pytest.mark.parametrize("id", [260, 999, -1, 2**40])
@pytest.mark.parametrize("draft", [None, "lookup"])
def test_an_id_that_the_model_has_no_row_for_is_told(
    model: LanguageModel, id: int, draft: Any
) -> None:
    for row in ([id, 1], [1, id]):
        with pytest.raises(UserError, match=f"prompt 2 has the id {id}; the model's are 0 to 259"):
            model.generate_ids([[259], row], GREEDY, draft=draft)


def test_a_text_needs_to_be_in_a_list(model: LanguageModel) -> None:
    with pytest.raises(UserError, match="a list of texts"):
        model.generate("abc", GREEDY)


def test_weights_of_few_bits_say_nearly_the_same(folder: Path, cli: Callable[..., Any]) -> None:
    plain = headway.load(folder, device="cpu")
    requests = [("The cat", " sat"), ("", "on the mat"), ("one two", " three")]
    wanted = [each.log_prob for each in plain.log_likelihoods(requests)]
    off = {}
    for bits in ("bfloat16", "int8", "int4"):
        rounded = headway.load(folder, device="cpu", quantize=bits)
        assert rounded.rounding is not None
        assert repr(rounded) == repr(plain)
        found = [each.log_prob for each in rounded.log_likelihoods(requests)]
        off[bits] = max(abs(a - b) for a, b in zip(found, wanted, strict=True))
    assert 0 < off["bfloat16"] < off["int8"] < off["int4"]
    assert off["int8"] < 0.1 * max(map(abs, wanted))
    words = ("generate", folder, "--prompt", "hi", "--greedy", "--max-new-tokens", 4)
    for bits, group in (("int4", ", in groups of 32"), ("int8", "")):
        said = cli(*words, "--quantize", bits, "--device", "cpu")
        assert said.code == 0, said.err
        told = rf"{bits}: 78,080 weights in .* MB in place of .*, changed by [\d.]+% of their norm"
        assert re.fullmatch(told + group, said.err.splitlines()[0])


def test_what_cannot_be_rounded_is_told(model: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown number of bits 'int3'"):
        model.quantize(cast(Any, "int3"))
    model.quantize("int8")
    with pytest.raises(UserError, match="rounded already"):
        model.quantize("int4")
    sizes = {"d_model": 16, "d_feed_forward": 24, "n_heads": 4, "n_layers": 1, "max_length": 16}
    settings = EncoderSettings(**sizes)
    encoder = build_masked(settings, n_tokens=260, seed=1).encoder
    write_model(tmp_path / "bert", encoder, settings)
    bytes_tokenizer().save(str(tmp_path / "bert" / "tokenizer.json"))
    with pytest.raises(UserError, match="does not compute with fewer bits"):
        headway.load(tmp_path / "bert", quantize="int8")


def test_load_opens_it(folder: Path) -> None:
    assert isinstance(headway.load(folder, device="cpu"), LanguageModel)


def test_what_can_be_judged_is_told(folder: Path, cli: Callable[..., Any]) -> None:
    said = cli("evaluate", folder).error
    assert "a language model does not have data of its own to be judged on; name a run" in said
    assert "--tasks NAME for a language model" in said
    assert "a language model does not translate" in cli("evaluate", folder, "--beam", 2).error


def test_more_ids_than_rows_are_refused(folder: Path, tmp_path: Path) -> None:
    made = bytes_tokenizer()
    made.add_tokens(["one more"])
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="261 ids, the model's embedding only 260 rows: 'one▁more'"):
        open_language_model(tmp_path)
